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
! bloomgate cluster: action: found 'adds', expected create, add, check, info, merge, dump, drop or complete; did you mean add?
! Try 'bloomgate cluster --help'.
? 2
$ bloomgate cluster list seen
! bloomgate cluster: action: found 'list', expected create, add, check, info, merge, dump, drop or complete
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
