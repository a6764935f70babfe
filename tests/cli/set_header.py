#!/usr/bin/env python3
"""Sets a byte in the header of a filter file and updates the header's checksum.
usage: set_header.py FILE OFFSET VALUE"""

import sys

CRC_AT = 4092


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


path, offset, value = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
with open(path, "r+b") as f:
    header = bytearray(f.read(CRC_AT))
    header[offset] = value
    f.seek(0)
    f.write(header + crc32c(header).to_bytes(4, "little"))
