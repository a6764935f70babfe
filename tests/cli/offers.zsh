# Runs zsh on a pseudo-terminal and prints the completions that it offers when Tab is pressed at the end of a line.
# usage: zsh -f offers.zsh SCRIPT LINE
zmodload zsh/zpty
zpty -b shell zsh -f -i
zpty -w shell "PROMPT= RPROMPT=; autoload -U compinit && compinit -u -D; source ${(q)1}
bindkey '^I' list-choices; LISTMAX=1000; stty columns 200 rows 200 -echo; echo REA''DY"
zpty -r shell text '*READY*'
zpty -n -w shell "$2"$'\t'
zpty -n -w shell $'\C-a\C-k'"echo EN''D"$'\n'
zpty -r shell text '*END*'
print -r -- $text
zpty -d shell
