# bloomgate keyring: prints the names of secrets, never the secrets.

$ bloomgate keyring --new one ring
! bloomgate keyring: ring: new filters now use the secret 'one'
$ bloomgate keyring -q --new two ring
$ bloomgate keyring ring
one
two	current
$ stat -c %a ring
600
$ sed -i '/^one /s/$/ retired/' ring; bloomgate keyring ring
one	retired
two	current

# The file contains the secrets. Each secret has 32 hexadecimal digits, and no two secrets are
# equal.
$ awk '/^(one|two) / { print length($2) }' ring; awk '/^(one|two) / { print $2 }' ring | sort -u | wc -l
32
32
2

# A filter can be built with a secret; lookups in that filter then require the keyring.
$ seq 100 | bloomgate build -q -n 100 --keyring ring f.bg
$ seq 100 | bloomgate check -c --keyring ring f.bg
100
$ bloomgate info --keyring ring f.bg | grep -E 'hash|key id'
  hash         keyed
  key id       two
$ seq 100 | bloomgate check -c f.bg
! bloomgate check: f.bg: its keys are hashed with a secret; use --keyring FILE
? 2

# A retired secret still opens its filters; a removed secret does not.
$ sed -i '/^two /s/$/ retired/' ring; bloomgate keyring -q --new three ring; seq 100 | bloomgate check -c --keyring ring f.bg
100
$ sed -i '/^two /d' ring; seq 100 | bloomgate check -c --keyring ring f.bg
! bloomgate check: ring: does not contain the secret for f.bg
? 3

# Errors.
$ bloomgate keyring --new three ring
! bloomgate keyring: ring: the name has the same first 16 bytes as the name on line 3; choose another name
? 2
$ bloomgate keyring --new 'a b' ring
! bloomgate keyring: ring: name: found 3 bytes, expected 1 to 31 letters, digits, '-', '_' and '.'
? 2
$ bloomgate keyring --new '' ring
! bloomgate keyring: ring: name: found 0 bytes, expected 1 to 31 letters, digits, '-', '_' and '.'
? 2
$ bloomgate keyring
! bloomgate keyring: expected one FILE, found 0 arguments
! Try 'bloomgate keyring --help'.
? 2
$ bloomgate keyring a b
! bloomgate keyring: expected one FILE, found 2 arguments
! Try 'bloomgate keyring --help'.
? 2
$ bloomgate keyring nowhere
! bloomgate keyring: nowhere: No such file or directory
? 4
$ bloomgate keyring --new x no/where
! bloomgate keyring: no/where: No such file or directory
? 4
$ chmod 644 ring; bloomgate keyring ring
! bloomgate keyring: ring: mode: found 644, expected no permissions for group and others (chmod 600)
? 2
$ bloomgate keyring --new four ring
! bloomgate keyring: ring: mode: found 644, expected no permissions for group and others (chmod 600)
? 2
$ printf 'nonsense\n' > bad; chmod 600 bad; bloomgate keyring bad
! bloomgate keyring: bad: line 1, secret: found nothing, expected 32 hexadecimal digits
? 3
$ ln -s ring link; chmod 600 ring; bloomgate keyring link
! bloomgate keyring: link: a keyring must not be a symbolic link; use the path of its target
? 4

# Filters cannot be read without their keyring, so no command overwrites a keyring.
$ cp -p ring kept; echo key > key; bloomgate build -f --keyring ring ring key; bloomgate dedup --keyring ring --stats ./ring key; bloomgate dedup --stats link key; cmp ring kept
! bloomgate build: ring: -f does not overwrite a keyring, because filters that use its secrets would be lost
! bloomgate dedup: --stats ./ring: this file is a keyring and would be overwritten; choose another file
! Try 'bloomgate dedup --help'.
! bloomgate dedup: --stats link: this file is a keyring and would be overwritten; choose another file
! Try 'bloomgate dedup --help'.

# A keyring is a file. "-" would create a file with that name.
$ bloomgate keyring --new a -; bloomgate keyring -; ls ./-
! bloomgate keyring: expected a file, not stdin or stdout
! Try 'bloomgate keyring --help'.
! bloomgate keyring: expected a file, not stdin or stdout
! Try 'bloomgate keyring --help'.
! ls: cannot access './-': No such file or directory
? 2
