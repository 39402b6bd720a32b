"""CRC-32C (Castagnoli, RFC 3720): the checksum of all that raftlog keeps, replicates and sends.

`crc32c(buffer)` takes any contiguous buffer and copies nothing; `crc32c(more, crc)` goes on from what came before. It
lets other threads run while it checks 16 KiB or more.
"""

from fastcrc.crc32 import iscsi as crc32c

__all__ = ["crc32c"]
