"""Where works are: one owner at a time, through hosts that come, go, fall silent and are fenced."""

from __future__ import annotations

import random
from collections.abc import Mapping

import pytest

from ottla.streams.placing import Places, StreamsWork, orders, standbys

WORKS = tuple(StreamsWork("orders", 0, partition) for partition in range(6))


def settled(places: Places) -> Places:
    """Let every order be carried out at once."""
    while True:
        places, said = orders(places)
        if not said.assign and not said.revoke:
            return places
        for host, works in said.revoke.items():
            places = places.released(host, works)


def counts(places: Places) -> Mapping[int, int]:
    return {host: list(places.owners.values()).count(host) for host in places.hosts}


def test_works_are_spread_evenly_and_stay() -> None:
    places = settled(Places().wanting(WORKS).joined(0).joined(1))
    assert counts(places) == {0: 3, 1: 3}
    assert settled(places) == places


def test_a_new_host_takes_works_one_at_a_time() -> None:
    places = settled(Places().wanting(WORKS).joined(0)).joined(1)
    places, said = orders(places)
    assert [len(works) for works in said.revoke.values()] == [1] and not said.assign
    assert orders(places)[1].revoke == {}
    assert counts(settled(settled(Places().wanting(WORKS).joined(0)).joined(1))) == {0: 3, 1: 3}


def test_works_are_weighed_by_what_they_cost() -> None:
    costs = {WORKS[0]: 5.0}
    places = settled(Places().wanting(WORKS).measured(costs).joined(0).joined(1))
    assert sorted(counts(places).values()) == [1, 5]


def test_a_work_of_a_silent_host_waits_until_that_is_fenced() -> None:
    places = settled(Places().wanting(WORKS).joined(0).joined(1)).left(1)
    places, said = orders(places)
    assert said.fence == (1,) and not said.assign
    places, said = orders(places.fenced(1))
    assert len(said.assign[0]) == 3 and said.fence == ()


def test_a_host_that_starts_again_takes_back_what_it_had() -> None:
    places = settled(Places().wanting(WORKS).joined(0).joined(1)).left(1)
    places, said = orders(places.joined(1))
    assert len(said.assign[1]) == 3


def test_a_work_that_is_wanted_no_more_is_let_go() -> None:
    places = settled(Places().wanting(WORKS).joined(0))
    places, said = orders(places.wanting(WORKS[:2]))
    assert set(said.revoke[0]) == set(WORKS[2:])


def test_standbys_are_on_other_hosts() -> None:
    places = settled(Places().wanting(WORKS, dict.fromkeys(WORKS, 1)).joined(0).joined(1).joined(2))
    copies = standbys(places)
    assert len(copies) == len(WORKS) and places.copies == copies
    assert all(places.owners[work] not in hosts and len(hosts) == 1 for work, hosts in copies.items())
    assert max(sum(host in hosts for hosts in copies.values()) for host in range(3)) == 2


def test_a_work_goes_to_the_host_that_has_its_copy_and_a_new_copy_is_made_elsewhere() -> None:
    places = settled(Places().wanting(WORKS, dict.fromkeys(WORKS, 1)).joined(0).joined(1).joined(2))
    lost = [work for work, owner in places.owners.items() if owner == 1]
    near = {work: places.copies[work] for work in lost}
    places, said = orders(places.left(1).fenced(1))
    for work in lost:
        assert {places.owners[work]} == near[work], "the copy is taken, and not dropped"
        assert all(work not in works for works in said.unfollow.values())
        [other] = places.copies[work]
        assert other != places.owners[work] and work in said.follow[other]


def test_a_work_moves_to_a_copy_only_once_that_has_everything() -> None:
    places = settled(Places().wanting(WORKS, dict.fromkeys(WORKS, 1)).joined(0)).joined(1)
    places, said = orders(places)
    assert said.revoke == {} and len(said.follow[1]) == len(WORKS)
    places, said = orders(places.followed(1, WORKS[:2]))
    assert said.revoke[0][0] in WORKS[:2]
    places, said = orders(places.released(0, said.revoke[0]))
    assert list(said.assign) == [1]


def test_one_host_has_no_copies() -> None:
    places, said = orders(Places().wanting(WORKS, dict.fromkeys(WORKS, 2)).joined(0))
    assert places.copies == {} and said.follow == {}


@pytest.mark.parametrize("seed", range(40))
def test_a_work_never_has_two_hosts_that_may_commit(seed: int) -> None:
    rng = random.Random(seed)
    places, holding = Places().wanting(WORKS), dict[int, set[StreamsWork]]()
    """What each host that is not fenced believes it has."""
    for _ in range(200):
        match rng.randrange(6):
            case 0:
                host = rng.randrange(4)
                places, holding[host] = places.joined(host), set()
            case 1 if places.hosts:
                places = places.left(rng.choice(sorted(places.hosts)))
            case 2 if places.gone:
                host = rng.choice(sorted(places.gone))
                places = places.fenced(host)
                holding[host] = set()
            case 3 if places.leaving:
                work = rng.choice(sorted(places.leaving))
                host = places.owners[work]
                holding[host].discard(work)
                places = places.released(host, [work])
            case 4:
                works = rng.sample(WORKS, rng.randrange(1, 7))
                places = places.wanting(works, dict.fromkeys(works, rng.randrange(3)))
            case _:
                places = places.measured({rng.choice(WORKS): rng.random() * 4})
        places, said = orders(places)
        for host, works in said.assign.items():
            holding[host] |= set(works)
        for work, hosts in places.copies.items():
            assert hosts <= places.hosts and places.owners.get(work) not in hosts, f"seed {seed}"
            assert len(hosts) <= places.replicas[work], f"seed {seed}"
        held = [work for works in holding.values() for work in works]
        assert len(held) == len(set(held)), f"seed {seed}"
