from random import Random

from reconciler.planner.pack import Fit, Pack, bits

# A state is the number of free cards, a want how many it takes; the fullest host is best.


def step(state: int, want: int) -> Fit | None:
    """Best fit."""
    return ((state - want,), state - want) if state >= want else None


def odd_ties(state: int, want: int) -> Fit | None:
    """Scores that several states share."""
    return ((state // 3,), state - want) if state >= want else None


def every(pack: Pack) -> tuple[int]:
    """One level: all hosts."""
    return (pack.every,)


def naive(states: list[int], want: int, levels: list[int]) -> int | None:
    """The host that a full scan chooses."""
    for mask in levels:
        fits = [(fit[0], host) for host in bits(mask) if (fit := odd_ties(states[host], want)) is not None]
        if fits:
            return min(fits)[1]
    return None


def test_the_best_score_wins_and_then_the_lowest_host() -> None:
    """Of hosts with 8, 3, 3 and 2 free cards, three cards go to the first with exactly three."""
    pack = Pack([8, 3, 3, 2], step)
    assert [pack.place(3, every(pack)) for _ in range(4)] == [1, 2, 0, 0]
    assert [pack.state(host) for host in range(4)] == [2, 0, 0, 2]


def test_equal_scores_of_unlike_states_go_to_the_lowest_host() -> None:
    """States 5, 4 and 3 score alike, so the order of hosts decides."""
    assert Pack([8, 5, 4, 3], odd_ties).place(1, (0b1111,)) == 1
    assert Pack([8, 3, 4, 5], odd_ties).place(1, (0b1111,)) == 1


def test_levels_are_tried_in_turn() -> None:
    """A better score in a later level loses to any fit in an earlier one."""
    pack = Pack([8, 2], step)
    assert pack.place(2, (0b01, 0b10)) == 0
    assert pack.place(7, (0b10, 0b01)) is None


def test_best_commits_nothing() -> None:
    """The answer is that of place, and the state stays."""
    pack = Pack([8, 3], step)
    assert pack.best(2, every(pack)) == ((1,), 1)
    assert pack.state(1) == 3


def test_offers_are_the_hosts_that_fit_best_first() -> None:
    """Hosts with 4, 8, 4 and 1 free cards, asked for two: 0, 2, then 1; the mask and the number limit them."""
    pack = Pack([4, 8, 4, 1], step)
    assert pack.offers(2, 0b1111, 9) == [((2,), 0), ((2,), 2), ((6,), 1)]
    assert pack.offers(2, 0b1110, 1) == [((2,), 2)]
    assert pack.fitting(2, 0b1110) == 0b0110


def test_several_wants_go_to_one_host_or_nowhere() -> None:
    """Of hosts with 3 and 4 free cards only the second takes 3 and 1."""
    pack = Pack([3, 4], step)
    assert pack.together([3, 1], every(pack), 8) == 1
    assert pack.together([3, 1], every(pack), 8) is None
    assert [pack.state(0), pack.state(1)] == [3, 0]


def test_a_state_set_from_outside_counts_at_once() -> None:
    """A host that becomes free is found by a want that was asked before."""
    pack = Pack([0, 0], step)
    assert pack.place(1, every(pack)) is None
    pack.set(1, 5)
    assert pack.place(1, every(pack)) == 1


def test_undo_goes_back_to_its_mark() -> None:
    """Nested marks come back one after the other."""
    pack = Pack([4, 4], step)
    outer = pack.mark()
    pack.place(3, every(pack))
    inner = pack.mark()
    pack.place(1, every(pack))
    pack.set(1, 0)
    pack.undo(inner)
    assert [pack.state(0), pack.state(1)] == [1, 4]
    pack.undo(outer)
    assert [pack.state(0), pack.state(1)] == [4, 4]
    assert pack.place(4, every(pack)) == 0


def test_placing_equals_a_full_scan_in_random_worlds() -> None:
    """Masks, levels, outside changes and undone transactions never lead to another host than a scan of all hosts."""
    for seed in range(60):
        random = Random(seed)  # noqa: S311 - a repeatable world
        states = [random.randrange(12) for _ in range(random.randrange(1, 40))]
        masks = [random.getrandbits(len(states)) for _ in range(4)]
        pack = Pack(states, odd_ties, static=masks[:2])
        for _ in range(150):
            before, mark, undone = list(states), pack.mark(), random.random() < 0.2
            for _ in range(random.randrange(1, 4)):
                levels = random.sample([*masks, pack.every], random.randrange(1, 4))
                want = random.randrange(1, 7)
                expected = naive(states, want, levels)
                assert pack.place(want, levels) == expected
                if expected is not None:
                    states[expected] -= want
                host, state = random.randrange(len(states)), random.randrange(12)
                states[host] = state
                pack.set(host, state)
            if undone:
                pack.undo(mark)
                states = before
            assert [pack.state(host) for host in range(len(states))] == states
