"""JSON as the most lenient readers take it: an object's members twice where they are there twice, values wherever they begin. Standard
library only."""

import json
import re


class Members(list):
    """An object as it was written: its members in order, twice where they are there twice."""

    def all(self, name):
        """Every member that some reader takes for `name`: in any case, with spaces or zeros around it."""
        return [value for key, value in self if key.strip().strip("\0").casefold() == name.casefold()]

    def last(self, name, default=None):
        return (self.all(name) or [default])[-1]


decoder = json.JSONDecoder(strict=False, object_pairs_hook=Members)


def values(text, begin=r'[{\["]'):
    """Every value in a text, whatever stands between them."""
    at, start = 0, re.compile(begin)
    while found := start.search(text, at):
        try:
            value, at = decoder.raw_decode(text, found.start())
            yield value
        except (ValueError, RecursionError):
            at = found.start() + 1


def plain(value, first=False):
    """The value with each member once: the last of one name, or the first."""
    if isinstance(value, Members):
        pairs = [(key, plain(one, first)) for key, one in value]
        return dict(reversed(pairs)) if first else dict(pairs)
    return [plain(one, first) for one in value] if isinstance(value, list) else value
