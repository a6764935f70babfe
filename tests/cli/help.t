# What bloomgate says of itself: check_help.py looks at every subcommand; this at the whole.

$ bloomgate --help | head -3
usage: bloomgate SUBCOMMAND [options] ...
       filters that answer "certainly not" or "maybe"
|
$ bloomgate
! bloomgate: what shall it do? A subcommand is missing
! Try 'bloomgate --help'.
? 2
$ bloomgate help help | head -1
usage: bloomgate SUBCOMMAND [options] ...
$ bloomgate help build | head -2
usage: bloomgate build [options] OUT [KEYS...]
       make a filter file of keys
$ bloomgate build --help | head -2
usage: bloomgate build [options] OUT [KEYS...]
       make a filter file of keys
$ bloomgate build -qh | head -1
usage: bloomgate build [options] OUT [KEYS...]
$ bloomgate help bild
! bloomgate: there is no subcommand 'bild'; did you mean build?
! Try 'bloomgate --help'.
? 2
$ bloomgate help build check
! bloomgate: help is about one subcommand
! Try 'bloomgate --help'.
? 2
$ bloomgate help --man bild
! bloomgate: there is no subcommand 'bild'; did you mean build?
! Try 'bloomgate --help'.
? 2
$ bloomgate version
bloomgate 0.1.0
$ bloomgate --version
bloomgate 0.1.0
$ bloomgate completion --help
usage: bloomgate completion bash|zsh|fish
       print a completion script for a shell
|
Always
  -q, --quiet               say nothing but errors
      --progress WHEN       a progress bar: auto, always or never
      --color WHEN          colours: auto, always or never
  -h, --help                print what options there are
|
Examples
  source <(bloomgate completion bash)
      complete in this shell from now on
  bloomgate completion fish > bloomgate.fish
      a script to be put in place

# Mistyped subcommands.
$ bloomgate biuld
! bloomgate: there is no subcommand 'biuld'; did you mean build?
! Try 'bloomgate --help'.
? 2
$ bloomgate chekc
! bloomgate: there is no subcommand 'chekc'; did you mean check?
! Try 'bloomgate --help'.
? 2
$ bloomgate comp
! bloomgate: there is no subcommand 'comp'; did you mean completion?
! Try 'bloomgate --help'.
? 2
$ for other in create insert show query delete; do bloomgate $other x 2>&1 | head -1; done
bloomgate: there is no subcommand 'create'; did you mean build?
bloomgate: there is no subcommand 'insert'; did you mean add?
bloomgate: there is no subcommand 'show'; did you mean info?
bloomgate: there is no subcommand 'query'; did you mean check?
bloomgate: there is no subcommand 'delete'; did you mean remove?
$ bloomgate zzz
! bloomgate: there is no subcommand 'zzz'
! Try 'bloomgate --help'.
? 2
$ bloomgate --bild
! bloomgate: found '--bild', expected a subcommand first
! Try 'bloomgate --help'.
? 2
$ bloomgate ''
! bloomgate: there is no subcommand ''
! Try 'bloomgate --help'.
? 2

# Man pages: what troff would take for its own is escaped.
$ bloomgate help --man build | head -6
.TH BLOOMGATE\-BUILD 1 "" "bloomgate 0.1.0" "User Commands"
.SH NAME
bloomgate\-build \- make a filter file of keys
.SH SYNOPSIS
\fBbloomgate build\fR [options] OUT [KEYS...]
.SH DESCRIPTION
$ bloomgate help --man | grep -c '^[.]SH'
10
$ bloomgate help --man check | grep -A1 '^[.]TP' | grep -A0 invert
\fB\-v\fR, \fB\-\-invert\fR

# Completions.
$ bloomgate completion
! bloomgate completion: for which shell? One of bash, zsh, fish is expected
! Try 'bloomgate completion --help'.
? 2
$ bloomgate completion csh
! bloomgate completion: found shell 'csh', expected one of bash, zsh, fish
! Try 'bloomgate completion --help'.
? 2
$ bloomgate completion bash zsh
! bloomgate completion: for which shell? One of bash, zsh, fish is expected
! Try 'bloomgate completion --help'.
? 2
$ bloomgate completion bash | bash -n
$ bloomgate completion zsh | head -2
|#compdef bloomgate
|# Completes bloomgate in zsh; made by: bloomgate completion zsh
$ bloomgate completion fish | grep 'check.*invert'
complete -c bloomgate -n '__bloomgate_is check' -s v -l invert -d 'print what certainly is no member'

# What cannot be written: the disk is full; nobody reads it any more, which is worth no word.
$ bloomgate build --help > /dev/full
! bloomgate build: stdout: No space left on device
? 4
$ { sleep 0.3; bloomgate build --help; echo $? >&2; } | true
! 141
