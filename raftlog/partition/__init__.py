"""Partition replicas of one broker, and the loops that replicate, clean, check and repair them.

`replica_manager` opens a `replica` for each assigned partition and starts the loops. Producers reach
`replica`, consumers `consumer_fetch`, followers `replica_fetch_server`. `fetcher` pulls from leaders into
`follower_replica`. Pure rules are in `core`, files in `storage`.
"""
