# bloomgate cluster: how it is called. What it does is tested against clusters, in tests/cluster.

$ bloomgate cluster
! bloomgate cluster: expected what to do, and the NAME of a filter
! Try 'bloomgate cluster --help'.
? 2
$ bloomgate cluster add
! bloomgate cluster: expected what to do, and the NAME of a filter
! Try 'bloomgate cluster --help'.
? 2
$ bloomgate cluster adds seen
! bloomgate cluster: found 'adds', expected create, add, check, info, merge, dump, drop or complete; did you mean add?
! Try 'bloomgate cluster --help'.
? 2
$ bloomgate cluster list seen
! bloomgate cluster: found 'list', expected create, add, check, info, merge, dump, drop or complete
! Try 'bloomgate cluster --help'.
? 2
$ unset BLOOMGATE_CLUSTER; bloomgate cluster add seen
! bloomgate cluster: which cluster? --cluster HOST:PORT is missing
! Try 'bloomgate cluster --help'.
? 2
$ bloomgate --cluster
! bloomgate cluster: --cluster needs a value: NODES
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
! bloomgate cluster: --batch is at most 100000, --replicas at most 1000
! Try 'bloomgate cluster --help'.
? 2
$ bloomgate cluster --cluster 127.0.0.1:1 --shard 4 add seen
! bloomgate cluster: there is no option --shard; did you mean --shards?
! Try 'bloomgate cluster --help'.
? 2
