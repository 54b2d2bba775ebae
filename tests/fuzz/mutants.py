"""Damaged variants of a file: cut, flipped, with parts missing or twice, with extreme numbers.

Inside archives, pickles and the footers of Parquet files, too.
"""

from __future__ import annotations

import io
import pickle
import zipfile

import numpy as np

EXTREMES = [0, 1, 0x7F, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF, 2**63 - 1, 2**64 - 1, 10**9, 10**12]
WORDS = [b"nan", b"-inf", b"1e400", b"9" * 400, b"0x" + b"f" * 5000, b"[" * 300, b'"', b"\x00", b"\xff\xfe", b"{", b"'"]
WORDS += [b"true", b"null", b"-1", b"", b"1000000000000", b"__class__", b"../../etc/passwd", b"\xe2\x80\xae"]


def mutant(content: bytes, number: int) -> bytes:
    """The variant of that number; always the same one."""
    rng = np.random.default_rng(number)
    try:
        if content.startswith(b"PK") and rng.random() < 0.8:
            return _inside_archive(content, rng)
        if content[:2] == b"\x80\x04" and rng.random() < 0.8:
            return _inside_pickle(content, rng)
    except (zipfile.BadZipFile, pickle.UnpicklingError, ValueError, EOFError):
        pass  # numbers that happen to begin like an archive or a pickle
    if content.startswith(b"PAR1") and rng.random() < 0.5:
        return _inside_footer(content, rng)
    return _changed(content, rng)


def _changed(content: bytes, rng: np.random.Generator) -> bytes:
    """One to three random changes."""
    changes = (_cut, _flip_one, _flip_many, _drop, _repeat, _swap, _extreme, _word)
    for _ in range(int(rng.integers(1, 4))):
        if len(content) > 1:
            content = changes[int(rng.integers(len(changes)))](content, rng)
    return content


def _inside_archive(content: bytes, rng: np.random.Generator) -> bytes:
    """A sound archive of which one member is changed, or missing, or there twice."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = [(info, archive.read(info)) for info in archive.infolist()]
    chosen = int(rng.integers(len(members)))
    kind = int(rng.integers(12))
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        for number, (info, data) in enumerate(members):
            if number == chosen and kind == 0:
                continue
            changed = mutant(data, int(rng.integers(2**32))) if number == chosen else data
            packing = zipfile.ZIP_DEFLATED if kind == 1 else info.compress_type
            archive.writestr(info.filename, changed, packing)
    return target.getvalue()


def _inside_pickle(content: bytes, rng: np.random.Generator) -> bytes:
    """A sound pickle of a dictionary of which one entry is changed."""
    stored = pickle.loads(content)
    name = list(stored)[int(rng.integers(len(stored)))]
    value = stored[name]
    data = value.encode() if isinstance(value, str) else value
    changed = mutant(data, int(rng.integers(2**32)))
    return pickle.dumps(stored | {name: changed.decode("utf-8", "replace") if isinstance(value, str) else changed})


def _inside_footer(content: bytes, rng: np.random.Generator) -> bytes:
    """A Parquet file with one to three flipped bits in its footer, whose length stands before the last four bytes."""
    changed, length = bytearray(content), int.from_bytes(content[-8:-4], "little")
    for bit in rng.integers(8 * length, size=int(rng.integers(1, 4))):
        changed[len(content) - 8 - length + bit // 8] ^= 1 << (bit % 8)
    return bytes(changed)


def _span(content: bytes, rng: np.random.Generator) -> tuple[int, int]:
    first = int(rng.integers(len(content)))
    return first, min(len(content), first + int(rng.integers(1, 1 + min(200, len(content)))))


def _cut(content: bytes, rng: np.random.Generator) -> bytes:
    return content[: int(rng.integers(1, len(content)))]


def _flip_one(content: bytes, rng: np.random.Generator) -> bytes:
    return _flip(content, rng, 1)


def _flip_many(content: bytes, rng: np.random.Generator) -> bytes:
    return _flip(content, rng, 30)


def _flip(content: bytes, rng: np.random.Generator, count: int) -> bytes:
    changed = bytearray(content)
    for place in rng.integers(len(content), size=count):
        changed[place] = int(rng.integers(256))
    return bytes(changed)


def _drop(content: bytes, rng: np.random.Generator) -> bytes:
    first, last = _span(content, rng)
    return content[:first] + content[last:]


def _repeat(content: bytes, rng: np.random.Generator) -> bytes:
    first, last = _span(content, rng)
    return content[:last] + content[first:last] * int(rng.integers(1, 5)) + content[last:]


def _swap(content: bytes, rng: np.random.Generator) -> bytes:
    (a, b), (c, d) = sorted((_span(content, rng), _span(content, rng)))
    return content if b > c else content[:a] + content[c:d] + content[b:c] + content[a:b] + content[d:]


def _extreme(content: bytes, rng: np.random.Generator) -> bytes:
    """A number of 1 to 8 bytes replaced by an extreme one."""
    size, place = int(rng.choice([1, 2, 4, 8])), int(rng.integers(len(content)))
    value = EXTREMES[int(rng.integers(len(EXTREMES)))] % 256**size
    order = "little" if rng.random() < 0.8 else "big"
    return content[:place] + value.to_bytes(size, order) + content[place + size :]


def _word(content: bytes, rng: np.random.Generator) -> bytes:
    first, last = _span(content, rng)
    word = WORDS[int(rng.integers(len(WORDS)))]
    return content[:first] + word + content[last if rng.random() < 0.5 else first :]
