from collections.abc import Sequence
from random import Random

from reconciler.planner.batch import Item, admit
from reconciler.planner.batch_order import Shape, scarcity
from reconciler.planner.batch_shares import subset
from reconciler.planner.pack import Fit, Pack


class World:
    """Hosts of whole cards and shares of cards; states and wants are numbered as they come up."""

    def __init__(self, cards: Sequence[int]) -> None:
        self.states: list[tuple[int, ...]] = []
        self.pack = Pack([self.state((1000,) * count) for count in cards], self.step)
        self.every = (self.pack.every,)

    def state(self, cards: tuple[int, ...]) -> int:
        if cards not in self.states:
            self.states.append(cards)
        return self.states.index(cards)

    def step(self, state: int, want: int) -> Fit | None:
        """A want is its milli."""
        cards = self.states[state]
        count, part = divmod(want, 1000)
        fits = [card for card in cards if card >= (part or 1000)]
        if len(fits) < max(count, 1):
            return None
        left = list(cards)
        if not part:
            left = left[: len(left) - count]
        else:
            left.remove(fits[0])
            left = sorted([*left, fits[0] - part])
        waste = fits[0] - part if part else 0
        return (waste, sum(left)), self.state(tuple(left))

    def free(self) -> list[tuple[int, ...]]:
        return [self.states[self.pack.state(host)] for host in range(self.pack.hosts)]


def shapes(items: Sequence[Item]) -> dict[int, Shape]:
    """What the batch knows of the wants, each with one core and one byte."""
    return {item.want: Shape(max(1, item.want // 1000), item.want, 1000, 1) for item in items}


def admitted(world: World, items: Sequence[Item]) -> dict[int, int]:
    """The host of each item by key."""
    return {items[at].key: host for at, host in admit(world.pack, items, shapes(items))}


class AtMost:
    """At most ``most`` items on a host."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.hosts: list[int] = []

    def levels(self, levels: Sequence[int], _item: Item, /) -> Sequence[int]:
        full = sum(1 << host for host in set(self.hosts) if self.hosts.count(host) >= self.most)
        return [mask & ~full for mask in levels]

    def take(self, host: int, _item: Item, /) -> None:
        self.hosts.append(host)

    def give(self, host: int, _item: Item, /) -> None:
        self.hosts.remove(host)


def test_priority_plays_no_part_when_all_fits() -> None:
    """Three cards of low priority leave one of two hosts of four cards whole for four of lower priority still."""
    world = World([4, 4])
    items = [Item(at, 1000, world.every, 9 - at) for at in range(4)] + [Item(4, 4000, world.every, 0)]
    assert len(admitted(world, items)) == 5


def test_a_lower_priority_is_left_out() -> None:
    """One host of four cards: the later of two asks for three cards waits, and one card fills up."""
    world = World([4])
    items = [Item(0, 3000, world.every, 1), Item(1, 3000, world.every, 2), Item(2, 1000, world.every, 0)]
    assert admitted(world, items) == {1: 0, 2: 0}


def test_many_small_ones_of_low_priority_do_not_keep_a_large_one_out() -> None:
    """Eight cards asked for last in the list but first in priority get the only host."""
    world = World([8])
    items = [*(Item(at, 1000, world.every, 1) for at in range(8)), Item(8, 8000, world.every, 2)]
    assert admitted(world, items) == {8: 0}


def test_shares_are_bundled_into_full_cards() -> None:
    """Best fit by size alone needs four cards for these nine shares; three are enough."""
    world = World([3])
    items = [Item(at, want, world.every) for at, want in enumerate((500, 500, 400, 300, 300, 300, 300, 200, 200))]
    assert len(admitted(world, items)) == 9
    assert world.free() == [(0, 0, 0)]


def test_equal_priorities_allocate_the_most() -> None:
    """Of four shares on one card the two that fill it are taken, not the largest."""
    world = World([1])
    items = [Item(0, 810, world.every), Item(1, 650, world.every), Item(2, 350, world.every), Item(3, 810, world.every)]
    assert admitted(world, items) == {1: 0, 2: 0}


def test_equal_wants_are_told_apart_by_key() -> None:
    """Of three equal items on two cards the two of the lowest keys are placed, however they are listed."""
    for order in ([0, 1, 2], [2, 1, 0], [1, 2, 0]):
        world = World([2])
        assert set(admitted(world, [Item(key, 1000, world.every) for key in order])) == {0, 1}


def test_those_that_can_go_to_few_hosts_come_first() -> None:
    """An item that may go to one host only finds it empty, though the other is listed and ranked before it."""
    world = World([1, 1, 1, 1])
    items = [*(Item(at, 1000, world.every) for at in range(3)), Item(3, 1000, (0b0001,))]
    assert admitted(world, items)[3] == 0


def test_an_overfull_group_of_hosts_does_not_stop_the_others() -> None:
    """Five ask for the one card of host 0; one gets it, and all that may go elsewhere are placed."""
    world = World([1, 4])
    items = [Item(at, 1000, (0b01,), -at) for at in range(5)] + [Item(at, 1000, world.every, -at) for at in range(5, 9)]
    assert admitted(world, items).keys() == {0, 5, 6, 7, 8}


def test_a_room_narrows_what_it_concerns() -> None:
    """At most one of three on each of two hosts: the third waits, another kind goes in; the room knows who is there."""
    world, room = World([4, 4]), AtMost(1)
    items = [Item(at, 1000, world.every, 1, room) for at in range(3)] + [Item(3, 4000, world.every)]
    assert admitted(world, items).keys() == {0, 1}
    assert sorted(room.hosts) == [0, 1]


def test_the_pairs_replay_to_the_state_of_the_pack() -> None:
    """Placing the pairs in their order on fresh hosts ends where the pack stands."""
    world = World([2, 3, 4])
    random = Random(7)  # noqa: S311 - a repeatable world
    items = [Item(at, random.choice((350, 470, 650, 1000, 2000)), world.every, -at) for at in range(30)]
    replay = World([2, 3, 4])
    for at, host in admit(world.pack, items, shapes(items)):
        assert replay.pack.place(items[at].want, (1 << host,)) == host
    assert replay.free() == world.free()


def random_items(random: Random, world: World) -> list[Item]:
    """Up to 39 items in three priorities, of which some may not go everywhere."""
    wants = (160, 320, 470, 650, 810, 1000, 1000, 2000, 4000)
    masks = [world.every, world.every, (random.getrandbits(world.pack.hosts) | 1,)]
    return [
        Item(key, random.choice(wants), random.choice(masks), random.randrange(3))
        for key in range(random.randrange(40))
    ]


def test_the_order_of_the_list_never_matters() -> None:
    """The same items in any order go to the same hosts."""
    for seed in range(40):
        random = Random(seed)  # noqa: S311 - a repeatable world
        cards = [random.randrange(1, 5) for _ in range(6)]
        items = random_items(random, World(cards))
        expected = admitted(World(cards), items)
        random.shuffle(items)
        assert admitted(World(cards), items) == expected


def test_nothing_left_out_would_still_fit() -> None:
    """No item that is left out fits beside all that is placed."""
    for seed in range(40):
        random = Random(seed)  # noqa: S311 - a repeatable world
        world = World([random.randrange(1, 5) for _ in range(6)])
        items = random_items(random, world)
        placed = admitted(world, items)
        assert all(world.pack.best(item.want, item.levels) is None for item in items if item.key not in placed)


def test_what_is_lower_keeps_nothing_out() -> None:
    """Where the first ten by priority fit together, they are placed whatever else is asked."""
    for seed in range(40):
        random = Random(seed)  # noqa: S311 - a repeatable world
        cards = [random.randrange(1, 5) for _ in range(6)]
        items = [item._replace(priority=-item.key) for item in random_items(random, World(cards))]
        first = {item.key for item in items[:10]}
        if admitted(World(cards), items[:10]).keys() == first:
            assert admitted(World(cards), items).keys() >= first


def test_subset_sums_reach_the_fullest_card() -> None:
    """650 and 350 fill a card; of equals the largest sizes are preferred; counts are kept."""
    assert subset([650, 350, 320], {650: 1, 350: 1, 320: 1}, 1000) == (650, 350)
    assert subset([500, 250], {500: 2, 250: 4}, 1000) == (500, 500)
    assert subset([500, 250], {500: 1, 250: 1}, 1000) == (500, 250)
    assert subset([500], {500: 3}, 300) == ()


def test_scarcity_counts_steps_of_the_square_root_of_two() -> None:
    """From half of the hosts on nobody is scarce; a quarter is four steps, an eighth six."""
    assert [scarcity(fitting, 64) for fitting in (64, 32, 31, 16, 8)] == [0, 0, 2, 4, 6]
