# bloomgate cluster: tests only how the command line is parsed; tests/cluster runs the command
# against clusters.

$ bloomgate cluster
! bloomgate cluster: expected an action and the NAME of a filter
! Try 'bloomgate cluster --help'.
? 2
$ bloomgate cluster add
! bloomgate cluster: expected an action and the NAME of a filter
! Try 'bloomgate cluster --help'.
? 2
$ bloomgate cluster adds seen
! bloomgate cluster: action: found 'adds', expected create, add, check, info, merge, dump, secrets, drop or complete; did you mean add?
! Try 'bloomgate cluster --help'.
? 2
$ bloomgate cluster list seen
! bloomgate cluster: action: found 'list', expected create, add, check, info, merge, dump, secrets, drop or complete
! Try 'bloomgate cluster --help'.
? 2
$ unset BLOOMGATE_CLUSTER; bloomgate cluster add seen
! bloomgate cluster: missing option --cluster HOST:PORT
! Try 'bloomgate cluster --help'.
? 2
$ bloomgate --cluster
! bloomgate cluster: --cluster requires a value: NODES
! Try 'bloomgate cluster --help'.
? 2
$ bloomgate --cluster localhost add seen
! bloomgate cluster: nodes: found 'localhost', expected HOST:PORT
? 2
$ bloomgate --cluster=localhost:0 add seen
! bloomgate cluster: nodes: found 'localhost:0', expected HOST:PORT
? 2
$ bloomgate --cluster localhost:70000,x:1 add seen
! bloomgate cluster: nodes: found 'localhost:70000', expected HOST:PORT
? 2
$ bloomgate --cluster , add seen
! bloomgate cluster: nodes: found '', expected HOST:PORT
? 2
$ bloomgate --cluster 127.0.0.1:1 --patience 50ms add seen
! bloomgate cluster: 127.0.0.1:1: Connection refused
? 4
$ bloomgate --cluster 127.0.0.1:1 --batch 1M add seen
! bloomgate cluster: --batch must be at most 100000, --replicas at most 1000
! Try 'bloomgate cluster --help'.
? 2
$ bloomgate cluster --cluster 127.0.0.1:1 --shard 4 add seen
! bloomgate cluster: unknown option --shard; did you mean --shards?
! Try 'bloomgate cluster --help'.
? 2

# The help lists the actions, and each action has its own help.
$ bloomgate cluster --help | sed -n '4,7p'
Actions (see also bloomgate cluster ACTION --help)
  create NAME               create the shards, each for its share of --items
  add NAME [KEYS...]        add keys from files or stdin
  check NAME [KEYS...]      print the lines that the filter may contain
$ bloomgate cluster drop --help | head -2
usage: bloomgate cluster [options] drop NAME
       delete the shards
$ bloomgate cluster create --help | grep -c -e '--items N' -e --missing -e --annotate -e --null
2
$ bloomgate --cluster h:1 check --help | grep -c -e --items -e --annotate -e --null
2
$ for action in $(bloomgate cluster --help | sed -n '/^Actions/,/^$/s/^  \([a-z]*\) .*/\1/p'); do bloomgate cluster $action --help | head -1; done
usage: bloomgate cluster [options] create NAME
usage: bloomgate cluster [options] add NAME [KEYS...]
usage: bloomgate cluster [options] check NAME [KEYS...]
usage: bloomgate cluster [options] info NAME
usage: bloomgate cluster [options] merge NAME OTHER...
usage: bloomgate cluster [options] dump NAME PREFIX
usage: bloomgate cluster [options] secrets NAME FILE
usage: bloomgate cluster [options] drop NAME
usage: bloomgate cluster [options] complete NAME
$ bloomgate cluster adds --help | head -1
usage: bloomgate cluster [options] ACTION NAME [...]
