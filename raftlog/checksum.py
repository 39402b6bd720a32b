"""CRC-32C (Castagnoli, RFC 3720): the checksum of all data that raftlog stores, replicates and sends.

`crc32c(buffer)` takes any contiguous buffer without a copy; `crc32c(more, crc)` continues from an earlier checksum. It
releases the GIL for buffers of 16 KiB or more.
"""

from fastcrc.crc32 import iscsi as crc32c

__all__ = ["crc32c"]
