"""The metadata quorum, in ZooKeeper's place: records, image, controller decisions, and the Raft engine below them.

`controller/` decides, `decision_writer` commits each decision through `quorum` (the adapter to PySyncObj), `replay`
applies it to the `image`, and `publisher` sends it to brokers.
"""
