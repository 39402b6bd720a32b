"""Replication decisions, without IO: leader, follower, ISR, leader epochs, producers."""
