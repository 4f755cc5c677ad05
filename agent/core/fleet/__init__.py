"""All queries at once: who is who, who lives, who ordered what, what brokers say, what is saved."""

from agent.core.decode.kafka_offsets import Reading
from agent.core.fleet.fleet import Fleet, RunSeen, StagesWanted
from agent.core.fleet.hearing import Receipt
from agent.core.fleet.liveness import Liveness
from agent.core.fleet.orders import LATE_ROWS_NOTE, Order, OrderRecord, UnknownQuery
from agent.core.fleet.replies import Grant
from agent.core.fleet.saved import Change
from agent.core.fleet.senders import ListenersView, ListenerView
from agent.core.fleet.state import AgentTotals
from agent.core.query import Key

__all__ = [
    "LATE_ROWS_NOTE",
    "AgentTotals",
    "Change",
    "Fleet",
    "Grant",
    "Key",
    "ListenerView",
    "ListenersView",
    "Liveness",
    "Order",
    "OrderRecord",
    "Reading",
    "Receipt",
    "RunSeen",
    "StagesWanted",
    "UnknownQuery",
]
