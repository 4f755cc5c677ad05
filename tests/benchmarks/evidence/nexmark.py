"""NEXMark: an auction house's people, auctions and bids as its generator draws them; its queries.

Tucker, Tufte, Papadimos and Maier, "NEXMark, a benchmark for queries over data streams" (2002), in
the form that Apache Beam and nexmark/nexmark gave it: of 50 events one is a new person, three are
auctions, 46 are bids; half of the bids go to the one hot auction of the last hundred, three
quarters come from a hot bidder; ids reach a little ahead of what was announced. Constants have
their names there. The rows are JSON; the queries are their SQL in Spark's words. Where Spark has no
such form, the query's comment says what is written instead.
"""

from __future__ import annotations

import itertools
import random
import string
from typing import TYPE_CHECKING, Final

from tests.benchmarks.evidence.query import BASE_TIME_MS, Query, Topic, time_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

FIRST_PERSON_ID: Final = 1000
FIRST_AUCTION_ID: Final = 1000
FIRST_CATEGORY_ID: Final = 10
NUM_CATEGORIES: Final = 5
NUM_ACTIVE_PEOPLE: Final = 1000
NUM_IN_FLIGHT_AUCTIONS: Final = 100
ID_LEAD: Final = 10
#: One in so many is not hot.
HOT_AUCTION_RATIO, HOT_BIDDERS_RATIO, HOT_SELLERS_RATIO = 2, 4, 4
#: The hot one is the first of the last so many.
HOT_OF: Final = 100
#: Mean bytes, by the generator's own count: eight for a number, one for a letter.
PERSON_BYTES, AUCTION_BYTES, BID_BYTES = 200, 500, 100
US_STATES: Final = ("AZ", "CA", "ID", "OR", "WA", "WY")
US_CITIES: Final = (
    *("Phoenix", "Los Angeles", "San Francisco", "Boise", "Portland"),
    *("Bend", "Redmond", "Seattle", "Kent", "Cheyenne"),
)
FIRST_NAMES: Final = (
    *("Peter", "Paul", "Luke", "John", "Saul", "Vicky", "Kate", "Julie", "Sarah", "Deiter"),
    "Walter",
)
LAST_NAMES: Final = (
    *("Shultz", "Abrams", "Spencer", "White", "Bartels", "Walton", "Smith", "Jones", "Noris"),
)

TOPICS: Final = {
    "person": Topic(
        "id BIGINT, name STRING, emailAddress STRING, creditCard STRING, city STRING, "
        "state STRING, dateTime TIMESTAMP, extra STRING",
        "dateTime",
        1,
    ),
    "auction": Topic(
        "id BIGINT, itemName STRING, description STRING, initialBid BIGINT, reserve BIGINT, "
        "dateTime TIMESTAMP, expires TIMESTAMP, seller BIGINT, category BIGINT, extra STRING",
        "dateTime",
        3,
    ),
    "bid": Topic(
        "auction BIGINT, bidder BIGINT, price BIGINT, dateTime TIMESTAMP, extra STRING",
        "dateTime",
        46,
    ),
}
#: Of each kind among so many, in this order.
TOTAL_PROPORTION: Final = sum(topic.proportion for topic in TOPICS.values())
PERSON_PROPORTION, AUCTION_PROPORTION = TOPICS["person"].proportion, TOPICS["auction"].proportion

QUERIES: Final = {
    "q2": Query(
        ("bid",),
        "SELECT auction, price FROM bid WHERE auction % 123 = 0",
        "a filter, without state",
    ),
    # A bidder's and an auction's side wait for each other for ever: the definition has no window.
    "q3": Query(
        ("person", "auction"),
        """
        SELECT P.name, P.city, P.state, A.id
        FROM auction A JOIN person P ON A.seller = P.id
        WHERE A.category = 10 AND P.state IN ('OR', 'ID', 'CA')
        """,
        "a join without a window: its state only grows",
    ),
    # Spark reads a self-join's source twice. The largest of (num, auction) is the same without one;
    # of auctions with the same number of bids it keeps the one with the largest id.
    "q5": Query(
        ("bid",),
        """
        SELECT window.start AS starttime, max(struct(num, auction)) AS hottest
        FROM (
          SELECT window(dateTime, '10 seconds', '2 seconds') AS window, auction, count(*) AS num
          FROM bid GROUP BY window(dateTime, '10 seconds', '2 seconds'), auction
        ) GROUP BY window
        """,
        "sliding windows, and a maximum over them",
    ),
    # As q5: the largest of (price, auction, bidder) instead of a self-join.
    "q7": Query(
        ("bid",),
        """
        SELECT window(dateTime, '10 seconds').start AS starttime,
               max(struct(price, auction, bidder, dateTime)) AS highest
        FROM bid GROUP BY window(dateTime, '10 seconds')
        """,
        "tumbling windows",
    ),
    "q8": Query(
        ("person", "auction"),
        """
        SELECT P.id, P.name, P.window.start AS starttime
        FROM (
          SELECT id, name, window(dateTime, '10 seconds') AS window
          FROM person GROUP BY id, name, window(dateTime, '10 seconds')
        ) P JOIN (
          SELECT seller, window(dateTime, '10 seconds') AS window
          FROM auction GROUP BY seller, window(dateTime, '10 seconds')
        ) A ON P.id = A.seller AND P.window = A.window
        """,
        "a join of two windowed streams",
    ),
    "q11": Query(
        ("bid",),
        """
        SELECT bidder, count(*) AS bid_count, session_window(dateTime, '10 seconds').start AS
               starttime
        FROM bid GROUP BY bidder, session_window(dateTime, '10 seconds')
        """,
        "session windows",
    ),
}


class Generator:
    """Rows by topic, one after the other, each at the time that it is given.

    Only the wanted topics are drawn; ids count on as if the others had been drawn, too.
    """

    def __init__(self, topics: Sequence[str], seed: int) -> None:
        self._random = random.Random(f"nexmark {seed}")
        self._letters = "".join(self._random.choices(string.ascii_lowercase, k=100_000))
        self._wanted = self._numbers(topics)
        self._draw = {"person": self._person, "auction": self._auction, "bid": self._bid}

    def row(self, time_ms: int) -> tuple[str, bytes]:
        """The topic and the JSON of the next event; ``time_ms`` since the epoch."""
        number, topic = next(self._wanted)
        return topic, self._draw[topic](number, time_ms)

    def endless(self) -> Iterator[tuple[str, bytes]]:
        """Rows whose times do not matter much: a thousand for each second."""
        for number in itertools.count():
            yield self.row(BASE_TIME_MS + number)

    @staticmethod
    def _numbers(topics: Sequence[str]) -> Iterator[tuple[int, str]]:
        kinds = [kind for kind, topic in TOPICS.items() for _ in range(topic.proportion)]
        for epoch in itertools.count():
            for offset, kind in enumerate(kinds):
                if kind in topics:
                    yield epoch * TOTAL_PROPORTION + offset, kind

    def _person(self, number: int, time_ms: int) -> bytes:
        draw = self._random
        name = f"{draw.choice(FIRST_NAMES)} {draw.choice(LAST_NAMES)}"
        email = f"{self._text(7)}@{self._text(5)}.com"
        card = " ".join(f"{draw.randrange(10_000):04d}" for _ in range(4))
        city, state = draw.choice(US_CITIES), draw.choice(US_STATES)
        size = 8 + len(name) + len(email) + len(card) + len(city) + len(state)
        return (
            f'{{"id":{last_person(number) + FIRST_PERSON_ID},"name":"{name}",'
            f'"emailAddress":"{email}","creditCard":"{card}","city":"{city}","state":"{state}",'
            f'"dateTime":"{time_text(time_ms)}","extra":"{self._extra(PERSON_BYTES - size)}"}}'
        ).encode()

    def _auction(self, number: int, time_ms: int) -> bytes:
        first = self._price()
        if self._below(HOT_SELLERS_RATIO):
            seller = last_person(number) // HOT_OF * HOT_OF
        else:
            seller = self._some_person(number)
        # A second on average: how long the next auctions take to come is up to the arrivals here.
        expires = time_ms + 1 + self._below(2000)
        return (
            f'{{"id":{last_auction(number) + FIRST_AUCTION_ID},"itemName":"{self._text(20)}",'
            f'"description":"{self._text(100)}","initialBid":{first},'
            f'"reserve":{first + self._price()},"dateTime":"{time_text(time_ms)}",'
            f'"expires":"{time_text(expires)}","seller":{seller + FIRST_PERSON_ID},'
            f'"category":{FIRST_CATEGORY_ID + self._below(NUM_CATEGORIES)},'
            f'"extra":"{self._extra(AUCTION_BYTES - 168)}"}}'
        ).encode()

    def _bid(self, number: int, time_ms: int) -> bytes:
        last = last_auction(number)
        if self._below(HOT_AUCTION_RATIO):
            auction = last // HOT_OF * HOT_OF
        else:
            least = max(last - NUM_IN_FLIGHT_AUCTIONS, 0)
            auction = least + self._below(last - least + 1 + ID_LEAD)
        if self._below(HOT_BIDDERS_RATIO):
            bidder = last_person(number) // HOT_OF * HOT_OF + 1
        else:
            bidder = self._some_person(number)
        return (
            f'{{"auction":{auction + FIRST_AUCTION_ID},"bidder":{bidder + FIRST_PERSON_ID},'
            f'"price":{self._price()},"dateTime":"{time_text(time_ms)}",'
            f'"extra":"{self._extra(BID_BYTES - 32)}"}}'
        ).encode()

    def _some_person(self, number: int) -> int:
        people = last_person(number) + 1
        active = min(people, NUM_ACTIVE_PEOPLE)
        return people - active + self._below(active + ID_LEAD)

    def _below(self, count: int) -> int:
        # Three times as quick as randrange, of which a row needs four: millions are drawn.
        return int(self._random.random() * count)

    def _price(self) -> int:
        return round(10 ** (self._random.random() * 6) * 100)

    def _text(self, most: int) -> str:
        """Letters, three at least."""
        return self._cut(3 + self._below(max(most - 3, 1)))

    def _extra(self, size: int) -> str:
        """Letters that bring a row to its size, give or take a fifth."""
        return self._cut(int(max(size, 0) * (0.8 + 0.4 * self._random.random())))

    def _cut(self, count: int) -> str:
        begin = self._below(len(self._letters) - count)
        return self._letters[begin : begin + count]


def last_person(number: int) -> int:
    """The newest person's id, from 0, when the event of this number is drawn."""
    epoch, offset = divmod(number, TOTAL_PROPORTION)
    return epoch * PERSON_PROPORTION + min(offset, PERSON_PROPORTION - 1)


def last_auction(number: int) -> int:
    """The newest auction's id, from 0, when the event of this number is drawn; -1 before any."""
    epoch, offset = divmod(number, TOTAL_PROPORTION)
    within = min(offset - PERSON_PROPORTION, AUCTION_PROPORTION - 1)
    return (epoch - 1 if within < 0 else epoch) * AUCTION_PROPORTION + (
        AUCTION_PROPORTION - 1 if within < 0 else within
    )
