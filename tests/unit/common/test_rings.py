# SPDX-License-Identifier: Apache-2.0

"""Rings and channels; both sides are in this process."""

import fcntl
import os
import select
import socket
import struct

import pytest

from fpgapool.common.channels import doorbells
from fpgapool.common.channels import rings

# Places of the words in the first page, as bytes.
WRITTEN, WRITER_WAITS, READ, READER_SLEEPS = 64, 72, 128, 136
DATA = 4096


@pytest.fixture
def ring():
    made = rings.Ring.create(4096)
    yield made
    made.close()


@pytest.fixture
def ends():
    made = []

    def make(size_bytes=4096, **members):
        near = rings.Channel.create(size_bytes, **members)
        far = rings.Channel.attach([os.dup(fd) for fd in near.fds])
        near.forget_fds()
        made.extend((near, far))
        return near, far

    yield make
    for channel in made:
        channel.close()


def poke(ring, at, word):
    os.pwrite(ring.fd, struct.pack("=Q", word), at)


def peek(ring, at):
    return struct.unpack("=Q", os.pread(ring.fd, 8, at))[0]


def is_rung(channel):
    poller = select.poll()
    poller.register(channel.fileno(), select.POLLIN)
    return bool(poller.poll(0))


def count_fds():
    return len(os.listdir("/proc/self/fd"))


def test_a_record_is_its_parts_joined(ring):
    assert ring.get() is None
    assert ring.put(b"ab", bytearray(b"cd"), memoryview(b"ef"), b"")
    assert bytes(ring.get()) == b"abcdef"
    ring.free()
    assert ring.get() is None


def test_parts_are_bytes_whatever_they_hold(ring):
    numbers = memoryview(struct.pack("=III", 1, 2, 3)).cast("I")
    assert ring.put(numbers, numbers[:0])
    assert bytes(ring.get()) == struct.pack("=III", 1, 2, 3)


def test_a_record_stays_the_oldest_until_it_is_free(ring):
    ring.put(b"first")
    ring.put(b"second")
    assert bytes(ring.get()) == b"first"
    assert bytes(ring.get()) == b"first"
    ring.free()
    assert bytes(ring.get()) == b"second"


def test_only_a_record_can_be_freed(ring):
    with pytest.raises(ValueError, match="no record"):
        ring.free()
    ring.put(b"one")
    with pytest.raises(ValueError, match="no record"):
        ring.free()
    assert bytes(ring.get()) == b"one"


def test_an_empty_record_is_a_record(ring):
    assert ring.put()
    assert bytes(ring.get()) == b""
    ring.free()
    assert ring.get() is None


def test_a_full_ring_takes_the_record_when_one_is_free(ring):
    assert ring.put(b"x" * 2040)
    assert ring.put(b"y" * 2040)
    assert not ring.has_room(0)
    assert not ring.put(b"z")
    ring.get()
    ring.free()
    assert ring.has_room(2040)
    assert ring.put(b"z" * 2040)
    assert bytes(ring.get()) == b"y" * 2040


def test_the_largest_record_fits_into_an_empty_ring_wherever_it_is(ring):
    largest = b"L" * ring.max_record_bytes
    # Records of nothing move the positions by 8 bytes.
    for _ in range(512):
        assert ring.put()
        ring.get()
        ring.free()
        assert ring.put(largest)
        assert bytes(ring.get()) == largest
        ring.free()


def test_a_record_that_never_fits_is_refused(ring):
    with pytest.raises(ValueError, match="larger than"):
        ring.put(bytes(ring.max_record_bytes + 1))
    with pytest.raises(ValueError, match="larger than"):
        ring.has_room(ring.max_record_bytes + 1)
    assert ring.get() is None


@pytest.mark.parametrize("size_bytes", [-1, 0, 4095, rings.MAX_RING_BYTES + 1])
def test_a_ring_has_limits(size_bytes):
    with pytest.raises(ValueError, match="the ring size"):
        rings.Ring.create(size_bytes)


def test_sizes_are_whole_pages(ring):
    made = rings.Ring.create(4097)
    assert made.size_bytes == 8192
    made.close()


def test_the_other_side_sees_the_records(ring):
    ring.put(b"one")
    other = rings.Ring.attach(os.dup(ring.fd))
    assert bytes(other.get()) == b"one"
    other.free()
    ring.put(b"two")
    assert bytes(other.get()) == b"two"
    other.close()


def test_the_size_cannot_be_changed(ring):
    for size_bytes in (0, 1 << 20):
        with pytest.raises(PermissionError):
            os.ftruncate(ring.fd, size_bytes)


def test_freeing_can_wipe_the_record(ring):
    secret = b"secret" * 100
    ring.put(secret)
    view = ring.get().view()
    ring.free(wipe=True)
    assert bytes(view) == bytes(600)
    assert b"secret" not in os.pread(ring.fd, 1 << 16, 0)


def test_a_writer_wipes_what_the_reader_has_freed(ring):
    for name in (b"one", b"two", b"three"):
        assert ring.put(name * 200)
    for _ in range(2):
        ring.get()
        ring.free()
    ring.wipe()
    left = os.pread(ring.fd, 1 << 16, 0)
    assert b"one" not in left
    assert b"two" not in left
    assert bytes(ring.get()) == b"three" * 200
    ring.free()
    ring.wipe()
    assert b"three" not in os.pread(ring.fd, 1 << 16, 0)


def test_wiping_covers_the_end_and_the_start_of_the_ring(ring):
    for _ in range(7):
        assert ring.put(b"secret" * 150)
        ring.get()
        ring.free()
    ring.wipe()
    assert b"secret" not in os.pread(ring.fd, 1 << 16, 0)


class TestLies:
    """A peer that writes nonsense gets an error and nothing else."""

    @pytest.mark.parametrize(
        "written", [4096 + 8, 2**63, 2**64 - 1, 2**64 - 8, 1, 7]
    )
    def test_position_of_the_writer(self, ring, written):
        poke(ring, WRITTEN, written)
        with pytest.raises(rings.RingDamaged):
            ring.get()

    @pytest.mark.parametrize("read", [8, 2**63, 2**64 - 8])
    def test_position_of_the_reader(self, ring, read):
        poke(ring, READ, read)
        for use in (lambda: ring.put(b"x"), lambda: ring.has_room(1)):
            with pytest.raises(rings.RingDamaged):
                use()
        with pytest.raises(rings.RingDamaged):
            ring.wipe()

    @pytest.mark.parametrize("length", [9, 4096, 2**63, 2**64 - 2])
    def test_length(self, ring, length):
        ring.put(b"12345678")
        poke(ring, DATA, length)
        with pytest.raises(rings.RingDamaged, match="extends"):
            ring.get()

    def test_a_length_is_read_once(self, ring):
        ring.put(b"12345678")
        ring.put(b"next")
        assert bytes(ring.get()) == b"12345678"
        poke(ring, DATA, 4000)
        assert bytes(ring.get()) == b"12345678"
        ring.free()
        assert bytes(ring.get()) == b"next"

    def test_skipping_more_than_was_written(self, ring):
        ring.put(b"12345678")
        poke(ring, DATA, 2**64 - 1)
        with pytest.raises(rings.RingDamaged, match="skips"):
            ring.get()

    def test_skipping_in_circles(self, ring):
        ring.put(bytes(2000))
        ring.get()
        ring.free()
        poke(ring, WRITTEN, 2008 + 4096)
        poke(ring, DATA + 2008, 2**64 - 1)
        poke(ring, DATA, 2**64 - 1)
        with pytest.raises(rings.RingDamaged):
            ring.get()

    def test_moving_the_other_sides_position(self, ring):
        ring.put(b"one")
        assert bytes(ring.get()) == b"one"
        poke(ring, READ, 4096)
        ring.free()
        assert peek(ring, READ) == 16
        poke(ring, WRITTEN, 80)
        assert ring.put(b"two")
        assert peek(ring, WRITTEN) == 32


class TestNoRing:
    """What cannot be a ring is not mapped."""

    @staticmethod
    def memory(size_bytes, seals):
        fd = os.memfd_create("test", os.MFD_ALLOW_SEALING)
        os.ftruncate(fd, size_bytes)
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, seals)
        return fd

    @pytest.mark.parametrize(
        ("size_bytes", "seals", "why"),
        [
            (8192, 0, "not sealed"),
            (8192, fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL, "not sealed"),
            (8192, 7, "not a ring"),
            (4096, 7, "not a valid ring size"),
            (0, 7, "not a valid ring size"),
            (8200, 7, "not a valid ring size"),
        ],
    )
    def test_memory(self, size_bytes, seals, why):
        fd = self.memory(size_bytes, seals)
        with pytest.raises(rings.RingDamaged, match=why):
            rings.Ring.attach(fd)
        os.close(fd)

    def test_pipe(self):
        reader, writer = os.pipe()
        with pytest.raises(rings.RingDamaged, match="not sealed"):
            rings.Ring.attach(reader)
        os.close(reader)
        os.close(writer)

    def test_position(self):
        made = rings.Ring.create(4096)
        poke(made, READ, 4)
        with pytest.raises(rings.RingDamaged, match="multiple of 8"):
            rings.Ring.attach(made.fd)
        made.close()

    @pytest.mark.parametrize("count", [0, 3, 5])
    def test_number_of_descriptors(self, count):
        before = count_fds()
        fds = [os.dup(0) for _ in range(count)]
        with pytest.raises(rings.RingDamaged, match="4 expected"):
            rings.Channel.attach(fds)
        assert count_fds() == before

    def test_descriptors_of_something_else(self):
        before = count_fds()
        made = rings.Ring.create(4096)
        fds = [os.dup(made.fd), os.dup(0), os.dup(0), os.dup(0)]
        with pytest.raises(rings.RingDamaged):
            rings.Channel.attach(fds)
        made.close()
        assert count_fds() == before


@pytest.mark.parametrize("stranger", [False, True])
class TestChannel:
    """Two ends of a channel."""

    def test_records_go_both_ways(self, ends, stranger):
        near, far = ends(stranger=stranger)
        assert near.put(b"there")
        assert bytes(far.get()) == b"there"
        far.free()
        assert far.put(b"and back")
        assert bytes(near.get()) == b"and back"
        near.free()
        assert near.get() is None
        assert far.get() is None

    def test_rings_may_differ_in_size(self, ends, stranger):
        near, far = ends(4096, incoming_bytes=1 << 16, stranger=stranger)
        assert near.max_record_bytes == 2040
        assert far.max_record_bytes == (1 << 15) - 8

    def test_the_bell_rings_only_for_a_sleeper(self, ends, stranger):
        near, far = ends(stranger=stranger)
        near.put(b"one")
        assert not is_rung(far)
        far.get()
        far.free()
        assert far.arm()
        near.put(b"two")
        near.put(b"three")
        assert is_rung(far)
        far.disarm()
        assert not is_rung(far)
        assert bytes(far.get()) == b"two"

    def test_a_record_that_came_before_the_flag_is_seen(self, ends, stranger):
        near, far = ends(stranger=stranger)
        near.put(b"one")
        assert not far.arm()
        far.disarm()
        assert bytes(far.get()) == b"one"

    def test_a_ring_between_two_waits_is_not_lost(self, ends, stranger):
        near, far = ends(stranger=stranger)
        assert far.arm()
        far.disarm()
        assert far.arm()
        near.put(b"one")
        assert is_rung(far)
        assert far.wait(0)
        assert bytes(far.get()) == b"one"

    def test_waiting_ends_at_its_timeout(self, ends, stranger):
        near, far = ends(stranger=stranger)
        assert not near.wait(0.001)
        assert not far.wait(0.001)

    def test_a_writer_hears_of_room(self, ends, stranger):
        near, far = ends(stranger=stranger)
        assert near.put(bytes(2040))
        assert near.put(bytes(2040))
        assert near.arm(room_bytes=100)
        far.get()
        far.free()
        assert is_rung(near)
        near.disarm()
        assert near.has_room(100)
        assert near.wait(0, room_bytes=100)

    def test_waiting_for_room_hears_of_a_record_too(self, ends, stranger):
        near, far = ends(stranger=stranger)
        assert near.put(bytes(2040))
        assert near.put(bytes(2040))
        assert near.arm(room_bytes=100)
        far.put(b"one")
        assert is_rung(near)
        near.disarm()
        assert bytes(near.get()) == b"one"
        assert not near.has_room(100)

    def test_all_descriptors_are_closed(self, stranger):
        before = count_fds()
        near = rings.Channel.create(4096, stranger=stranger)
        far = rings.Channel.attach([os.dup(fd) for fd in near.fds])
        near.close()
        near.close()
        far.close()
        assert near.fileno() == -1
        # The maps keep descriptors until they go.
        del near, far
        assert count_fds() == before

    def test_the_rings_outlive_what_only_the_peer_needs(self, ends, stranger):
        near, far = ends(stranger=stranger)
        assert near.fds == []
        assert near.put(b"one")
        assert bytes(far.get()) == b"one"

    def test_outputs_can_be_wiped(self, ends, stranger):
        near, far = ends(stranger=stranger)
        near.put(b"secret")
        view = far.get().view()
        far.free()
        assert near.wipe()
        assert bytes(view) == bytes(6)

    def test_a_writer_hears_that_all_is_freed(self, ends, stranger):
        near, far = ends(stranger=stranger)
        assert near.wait(0, rings.ALL)
        near.put(b"one")
        near.put(b"two")
        assert not near.wipe()
        # A record that comes meanwhile does not end the wait.
        far.put(b"other")
        assert near.arm(rings.ALL)
        far.get()
        far.free()
        assert is_rung(near)
        near.disarm()
        assert near.arm(rings.ALL)
        far.get()
        far.free()
        assert near.wait(0, rings.ALL)
        assert near.wipe()


class TestHostileBell:
    """A stranger can make this side neither wait nor fail."""

    def test_silencing_a_blocking_eventfd(self, ends):
        near, far = ends(stranger=True)
        assert near.arm()
        far.put(b"one")
        # The stranger silences the bell itself and lets reads block.
        os.set_blocking(near.fileno(), True)
        os.eventfd_read(near.fileno())
        near.disarm()
        assert bytes(near.get()) == b"one"

    def test_ringing_a_full_socket(self, ends):
        near, far = ends(stranger=True)
        os.set_blocking(far.fileno(), True)
        # The stranger never silences its bell.
        while is_writable(near):
            assert far.arm()
            near.put(b"")
            far.get()
            far.free()
        assert far.arm()
        near.put(b"last")
        assert bytes(far.get()) == b"last"

    def test_a_closed_socket_is_noticed(self, ends):
        near, far = ends(stranger=True)
        near.close()
        assert is_rung(far)
        far._incoming.clear(rings._AT_READER_SLEEPS)
        with pytest.raises(doorbells.PeerGone):
            far.disarm()

    def test_ringing_a_closed_socket(self, ends):
        near, far = ends(stranger=True)
        far.arm()
        far.close()
        assert near.put(b"one")


def is_writable(channel):
    poller = select.poll()
    poller.register(channel._peers_bell.fd, select.POLLOUT)
    return bool(poller.poll(0))


def test_channels_pass_through_a_socket():
    near = rings.Channel.create(4096, stranger=True)
    left, right = socket.socketpair()
    socket.send_fds(left, [b"1"], near.fds)
    _, fds, _, _ = socket.recv_fds(right, 1, rings.CHANNEL_FDS)
    near.forget_fds()
    far = rings.Channel.attach(fds)
    near.put(b"through")
    assert bytes(far.get()) == b"through"
    for each in (left, right, near, far):
        each.close()


class TestDiscarding:
    """The memory of a stranger's rings goes with their channel."""

    @staticmethod
    def ends(stranger=True):
        near = rings.Channel.create(1 << 16, stranger=stranger)
        kept = [os.dup(fd) for fd in near.fds]
        far = rings.Channel.attach([os.dup(fd) for fd in near.fds])
        near.forget_fds()
        for channel in (near, far):
            assert channel.put(bytes(10_000))
        return near, far, kept

    @staticmethod
    def kept_bytes(kept):
        blocks = sum(os.fstat(fd).st_blocks for fd in kept[:2]) * 512
        for fd in kept:
            os.close(fd)
        return blocks

    def test_it_goes_though_the_peer_keeps_it(self):
        near, far, kept = self.ends()
        near.close()
        near.close()
        assert self.kept_bytes(kept) == 0
        far.close()

    def test_others_leave_it_to_the_last_one(self):
        near, far, kept = self.ends(stranger=False)
        near.close()
        assert self.kept_bytes(kept) > 20_000
        far.close()

    def test_a_peer_knows_what_it_has_read(self):
        near, far, kept = self.ends()
        assert far.get().view()[:3] == bytes(3)
        assert far.is_whole()
        near.close()
        assert not far.is_whole()
        self.kept_bytes(kept)
        far.close()

    def test_records_that_were_cleared_are_not_taken(self):
        near, far, kept = self.ends()
        assert far.get() is not None
        near.close()
        with pytest.raises(rings.RingDamaged, match="discarded"):
            far.take(1, 1 << 16)
        with pytest.raises(rings.RingDamaged):
            far.get()
        self.kept_bytes(kept)
        far.close()
