"""The client's protocol logic, without IO and clocks: accumulator, sequences, retries, group membership."""
