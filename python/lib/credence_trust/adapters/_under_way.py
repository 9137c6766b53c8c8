"""Calls whose beginning and end a framework tells in two places."""

from __future__ import annotations

import threading
import time
import weakref
from typing import Any, Hashable, Optional

from ..guard import Recording

MAX_CALLS = 1000
MAX_SECONDS = 3600.0


class UnderWay:
    """Calls that have begun, each until it ends.

    A framework may never tell the end: the tool raised, the run was cancelled, somebody else refused the call. Such a call is let go when its
    context is (``owner``), after an hour, or as the oldest of 1,000. Its receipt then says that it was not answered.
    """

    def __init__(self) -> None:
        self._calls: dict[Hashable, tuple[float, Recording]] = {}
        self._lock = threading.Lock()

    def begin(self, key: Hashable, call: Recording, owner: Any = None) -> None:
        now = time.monotonic()
        dropped = []
        with self._lock:
            dropped.append(self._calls.pop(key, None))
            self._calls[key] = (now, call)
            for other, (since, _) in list(self._calls.items()):
                if now - since <= MAX_SECONDS and len(self._calls) <= MAX_CALLS:
                    break
                dropped.append(self._calls.pop(other))
        # Outside the lock: letting a call go writes its receipt.
        del dropped
        if owner is not None:
            try:
                weakref.finalize(owner, self._let_go, key, call).atexit = False
            except TypeError:
                # An object that cannot be referred to weakly.
                pass

    def end(self, key: Hashable) -> Optional[Recording]:
        with self._lock:
            found = self._calls.pop(key, None)
        return None if found is None else found[1]

    def _let_go(self, key: Hashable, call: Recording) -> None:
        with self._lock:
            found = self._calls.get(key)
            if found is not None and found[1] is call:
                del self._calls[key]

    def __len__(self) -> int:
        return len(self._calls)
