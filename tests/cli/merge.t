# bloomgate merge, fold, split, join: filters made of filters.

$ seq 1000 > a; seq 501 1500 > b
$ bloomgate build -q --items 2000 --folds 4 a.bg a
$ bloomgate build -q --items 2000 --folds 4 b.bg b
$ bloomgate merge ab.bg a.bg b.bg
$ seq 1500 | bloomgate check -c ab.bg

# It equals the filter that has the keys of both.
$ cat a b | bloomgate build -q --items 2000 --folds 4 both.bg
$ bloomgate diff -q ab.bg both.bg

# Several; and over one of them.
$ bloomgate merge -q abb.bg a.bg b.bg b.bg
$ bloomgate merge a.bg a.bg b.bg
$ bloomgate merge -q -f a.bg a.bg b.bg
$ seq 1500 | bloomgate check -c a.bg

# Notes, generation and recipe are those of the first.
$ seq 10 | bloomgate build -q --items 100 --generation 7 --note hello --lower l1.bg
$ seq 10 | bloomgate build -q --items 100 --generation 8 --note world --lower l2.bg
$ bloomgate merge -q l.bg l1.bg l2.bg
$ bloomgate info l.bg | grep -E 'generation|canaries|note|keys'
$ bloomgate merge -q --generation 9 l9.bg l1.bg l2.bg
$ bloomgate info l9.bg | grep -E 'generation|canaries'
$ bloomgate canary l9.bg

# What does not fit is named.
$ seq 10 | bloomgate build -q --items 100 plain.bg
$ bloomgate merge no.bg l1.bg plain.bg
$ seq 10 | bloomgate build -q --items 5000 large.bg
$ bloomgate merge no.bg plain.bg large.bg
$ seq 10 | bloomgate build -q --items 100 --kind classic classic.bg
$ bloomgate merge no.bg plain.bg classic.bg
$ seq 10 | bloomgate build -q --items 100 --seed 1 seed.bg
$ bloomgate merge no.bg plain.bg seed.bg
$ seq 10 | bloomgate build -q --kind fuse fuse.bg
$ bloomgate merge no.bg fuse.bg fuse.bg
$ seq 3000 | bloomgate build -q --items 3000 --kind cuckoo full.bg
$ bloomgate merge no.bg full.bg full.bg
$ ls no.bg

# Other mistakes.
$ bloomgate merge out.bg a.bg
$ bloomgate merge out.bg a.bg missing.bg
$ bloomgate merge out.bg missing.bg a.bg
$ mkdir folder; bloomgate merge out.bg a.bg folder
$ bloomgate merge -f folder a.bg b.bg
$ bloomgate merge -f /dev/null a.bg b.bg
$ bloomgate merge no-folder/out.bg a.bg b.bg
$ bloomgate merge --generation x out.bg a.bg b.bg
$ bloomgate merge out.bg a.bg a
$ bloomgate merge --forse out.bg a.bg b.bg

# Secrets.
$ printf 'one 000102030405060708090a0b0c0d0e0f\n' > ring; chmod 600 ring
$ printf 'two 100102030405060708090a0b0c0d0e0f\n' > other; chmod 600 other
$ bloomgate build -q --items 100 --hash keyed --keyring ring k1.bg a
$ bloomgate build -q --items 100 --hash keyed --keyring ring k2.bg b
$ bloomgate build -q --items 100 --hash keyed --keyring other k3.bg b
$ bloomgate merge k.bg k1.bg k2.bg
$ bloomgate merge --keyring other k.bg k1.bg k2.bg
$ bloomgate merge -q --keyring ring k.bg k1.bg k2.bg
$ bloomgate check -c --keyring ring k.bg a b
$ cat ring other > rings; chmod 600 rings
$ bloomgate merge --keyring rings kk.bg k1.bg k3.bg

# A disk that is full: what was there stays, and nothing else does.
$ seq 100000 | bloomgate build -q --items 100000 big.bg; cp big.bg before.bg
$ (trap '' XFSZ; ulimit -f 16; bloomgate merge -f big.bg big.bg big.bg)
$ cmp big.bg before.bg; ls *tmp* .*tmp* 2>/dev/null

# A damaged one is refused; --tolerate takes what is left.
$ cp b.bg damaged.bg; printf '\377\377' | dd of=damaged.bg bs=1 seek=4200 conv=notrunc status=none
$ bloomgate merge out.bg a.bg damaged.bg
$ bloomgate merge -q --tolerate tolerated.bg a.bg damaged.bg
$ seq 1500 | bloomgate check -c tolerated.bg

# Halves.
$ bloomgate fold half.bg both.bg
$ seq 1500 | bloomgate check -c half.bg
$ bloomgate fold -q --times 2 quarter.bg both.bg; bloomgate fold -q quarter2.bg half.bg; bloomgate diff -q quarter.bg quarter2.bg
$ bloomgate fold --times 40 no.bg both.bg
$ bloomgate fold --times 64 no.bg both.bg
$ bloomgate fold no.bg fuse.bg
$ bloomgate fold half.bg both.bg
$ bloomgate fold -f -q half.bg both.bg
$ bloomgate fold half.bg
$ bloomgate fold no.bg missing.bg
$ bloomgate fold -q -g 5 half5.bg both.bg; bloomgate canary half5.bg

# Shards.
$ bloomgate split $CLI_TESTS/../golden/files/shards.bg part
$ ls part.*
$ bloomgate join part 3 joined.bg
$ bloomgate diff joined.bg $CLI_TESTS/../golden/files/shards.bg
$ bloomgate verify joined.bg part.0
$ bloomgate split $CLI_TESTS/../golden/files/shards.bg part
$ bloomgate split -q -f $CLI_TESTS/../golden/files/shards.bg part
$ bloomgate split both.bg part
$ bloomgate split both.bg
$ bloomgate split missing.bg part
$ bloomgate join part 2 joined2.bg
$ bloomgate join part 3 joined.bg
$ bloomgate join -f -q part 3 joined.bg
$ bloomgate join part 1 no.bg
$ bloomgate join part many no.bg
$ bloomgate join part 3
$ bloomgate join nothing 3 no.bg
$ mv part.1 part.x; mv part.2 part.1; mv part.x part.2; bloomgate join part 3 no.bg
$ cp a.bg part.0; bloomgate join part 3 no.bg
$ (trap '' XFSZ; ulimit -f 1; bloomgate split $CLI_TESTS/../golden/files/shards.bg full)
$ ls full.*
