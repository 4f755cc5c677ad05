"""The JVM sessions that are watched, none of which is kept from the JVM's garbage collector."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from spark_listener.handlers import errors_of_ours_suppressed
from spark_listener.handles import OBJECT, Handles
from spark_listener.lease import LISTENER

if TYPE_CHECKING:
    from collections.abc import Callable

    from spark_listener.lease import Lease


class Session:
    """A JVM session that is watched, known to the JVM's programs by its key."""

    def __init__(
        self, reference: Any, key: str, wrapped: Any, *, control: bool, whole: bool = False
    ) -> None:
        self.reference = reference  # Java: a WeakReference
        self.key = key
        self.wrapped = wrapped  # what Spark holds as our listener
        self.control = control  # whether limits of its queries may be set
        self.whole = whole  # whether what its queries did before it was watched is untold

    @property
    def java(self) -> Any:
        """The session. Raises LookupError where the job has let go of it and it is gone."""
        found = self.reference.get()
        if found is None:
            raise LookupError("the session is gone")
        return found

    @property
    def gone(self) -> bool:
        """Whether the JVM has collected it. Raises what py4j raises."""
        return self.reference.get() is None


class Sessions:
    """Every watched session by its key, found again by the JVM's object in one call."""

    def __init__(self, gateway: Any, lease: Lease) -> None:
        self._jvm = gateway.jvm
        self._handles = Handles(gateway)
        self._lease = lease
        java_util = gateway.jvm.java.util
        self._keys = java_util.Collections.synchronizedMap(java_util.WeakHashMap())
        self._known: dict[str, Session] = {}
        self._next = itertools.count(1)

    def all(self) -> list[Session]:
        """What is watched."""
        return list(self._known.values())

    def of_key(self, key: str) -> Session | None:
        """The session of an event."""
        return self._known.get(key)

    def of(self, java_session: Any) -> Session | None:
        """What is watched of this JVM session, if it is."""
        if not self._known or java_session is None:
            return None
        key = self._keys.get(java_session)
        return None if key is None else self._known.get(str(key))

    def add(
        self,
        java_session: Any,
        listener: Callable[[str], Any],
        *,
        control: bool,
        whole: bool = False,
    ) -> Session:
        """Puts a listener, made for the session's key, into a session."""
        key = str(next(self._next))
        reference = self._jvm.java.lang.ref.WeakReference(java_session)
        session = Session(reference, key, listener(key), control=control, whole=whole)
        try:
            # By our gateway: what is given may be an object of the job's.
            java = session.java
            self._keys.put(java, key)  # before it is known: whoever is in no key is gone
            self._known[key] = session  # from its first event on
            self._lease.leave(f"{LISTENER}{key}", lambda: self._removal(java, session))
            java.streams().addListener(session.wrapped)
        except BaseException:  # an interrupt too, after which Spark may hold the listener
            self._take_out(session)
            raise
        return session

    def _take_out(self, session: Session) -> bool:
        """Forgets a session of which Spark may hold the listener; true where it was known."""
        try:
            with errors_of_ours_suppressed():  # of a session that is gone, or a JVM
                session.java.streams().removeListener(session.wrapped)
        finally:
            known = self.remove(session)
        return known

    def _removal(self, java_session: Any, session: Session) -> Any:
        """Takes the listener out of the session, which it does not keep alive."""
        h = self._handles
        streams = h.method_of(java_session, "streams")
        remove = h.method_of(
            java_session.streams(),
            "removeListener",
            "org.apache.spark.sql.streaming.StreamingQueryListener",
        )
        found = h.bound(session.reference, "get", f"()L{OBJECT.replace('.', '/')};")
        manager = h.piped(found, streams)
        return h.as_interface(
            "java.lang.Runnable",
            h.safe(h.piped(manager, h.given(remove, 1, session.wrapped))),
        )

    def remove(self, session: Session) -> bool:
        """Forgets a session; true where it was known."""
        known = self._known.pop(session.key, None) is not None
        with errors_of_ours_suppressed():  # of a JVM that is gone
            self._lease.forget(f"{LISTENER}{session.key}")
        # Known or not: one key too many, and no session that is gone would be missed any more.
        with errors_of_ours_suppressed():  # of a session that is, too
            self._keys.remove(session.java, session.key)  # and no key that it was given since
        return known

    def clear(self) -> None:
        """Forgets all of them, without a word to the JVM."""
        self._known.clear()

    def take_out_gone(self) -> list[Session]:
        """Forgets the sessions that the JVM has collected, and returns them."""
        if int(self._keys.size()) >= len(self._known):
            return []
        kept = {str(key) for key in self._keys.values()}
        gone = [session for key, session in list(self._known.items()) if key not in kept]
        return [session for session in gone if self._take_out(session)]
