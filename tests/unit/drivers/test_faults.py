# SPDX-License-Identifier: Apache-2.0

"""What faults files say, and when faults happen."""

import pytest
import yaml

from fpgapool.drivers import base
from fpgapool.drivers import documents
from fpgapool.drivers import helper
from fpgapool.drivers.emulator import faults
from fpgapool.drivers.emulator import files

SLOTS = {"board0": 4, "board1": 2}


@pytest.fixture
def write(tmp_path):
    path = tmp_path / "boards.faults.yaml"

    def write_file(document):
        fresh = tmp_path / "new"
        fresh.write_text(yaml.safe_dump(document))
        fresh.rename(path)
        return path

    return write_file


@pytest.fixture
def make_injector(tmp_path):
    there = files.Files(tmp_path, tmp_path / "boards.yaml")
    there.faults_dir.mkdir()

    def asked(device, slot):
        return helper.Local(there.duties(device, slot))

    def make(*standing, version="1"):
        injector = faults.Injector(there, asked)
        injector.set_boards(standing, SLOTS, version)
        return injector

    return make


def kinds(injector, slot, device="board0"):
    return [
        fault.kind for fault in injector.in_force(device, slot, faults.KINDS)
    ]


class TestFile:
    def test_all_members(self, write):
        found, version = faults.read_faults(
            write(
                {
                    "board0": {
                        "dead": {"message": "gone", "after_bytes": 10},
                        "unhealthy": "hot",
                        "programming": [1, {"probability": 0.5, "seed": 3}],
                        "core_slow": [{"slot": 2, "slowness": 4}],
                        "core_hang": [{"after_bytes": 7, "once": True}],
                    },
                    "board1": {"scrub": [0]},
                }
            ),
            SLOTS,
        )
        assert version
        by_place = {fault.place: fault for fault in found}
        assert by_place["board0.dead"].message == "gone"
        assert by_place["board0.dead"].after_bytes == 10
        assert by_place["board0.unhealthy"].message == "hot"
        assert by_place["board0.programming[0]"].slot == 1
        second = by_place["board0.programming[1]"]
        assert (second.slot, second.probability, second.seed) == (None, 0.5, 3)
        assert by_place["board0.core_slow[0]"].slowness == 4
        hang = by_place["board0.core_hang[0]"]
        assert (hang.after_bytes, hang.once) == (7, True)
        assert by_place["board1.scrub[0]"].device == "board1"
        assert len(found) == 7

    def test_an_empty_file_has_no_faults(self, tmp_path):
        path = tmp_path / "empty"
        path.write_text("# none\n")
        assert faults.read_faults(path, SLOTS)[0] == ()

    @pytest.mark.parametrize(
        ("member", "document"),
        [
            ("", ["board0"]),
            ("", {"board2": {}}),
            ("board0", {"board0": []}),
            ("board0", {"board0": {"fire": [0]}}),
            ("board0.dead", {"board0": {"dead": [0]}}),
            ("board0.dead", {"board0": {"dead": {"once": True}}}),
            ("board0.dead.message", {"board0": {"dead": {"message": 1}}}),
            ("board0.scrub", {"board0": {"scrub": 1}}),
            ("board0.scrub[0]", {"board0": {"scrub": ["0"]}}),
            ("board0.scrub[0]", {"board0": {"scrub": [True]}}),
            ("board1.scrub[1].slot", {"board1": {"scrub": [1, 2]}}),
            (
                "board0.scrub[0]",
                {"board0": {"scrub": [{"after_bytes": 1}]}},
            ),
            (
                "board0.core_hang[0]",
                {"board0": {"core_hang": [{"slowness": 2}]}},
            ),
            (
                "board0.core_slow[0].slowness",
                {"board0": {"core_slow": [{"slot": 1}]}},
            ),
            (
                "board0.core_slow[0].slowness",
                {"board0": {"core_slow": [{"slowness": 0.5}]}},
            ),
            (
                "board0.core_hang[0].after_bytes",
                {"board0": {"core_hang": [{"after_bytes": -1}]}},
            ),
            (
                "board0.core_hang[0].probability",
                {"board0": {"core_hang": [{"probability": 1.1}]}},
            ),
            (
                "board0.core_hang[0].seed",
                {"board0": {"core_hang": [{"seed": "x"}]}},
            ),
            (
                "board0.core_hang[0].once",
                {"board0": {"core_hang": [{"once": 1}]}},
            ),
        ],
    )
    def test_errors_say_where(self, write, member, document):
        path = write(document)
        with pytest.raises(base.DriverError) as caught:
            faults.read_faults(path, SLOTS)
        assert caught.value.code == "INVALID_SETTINGS"
        start = f"faults file {path}: {member}: ".removesuffix(": : ")
        assert caught.value.message.startswith(start)

    def test_a_version_is_that_of_what_was_read(self, write):
        path = write({})
        first = faults.read_faults(path, SLOTS)[1]
        assert first == documents.file_version(path)
        write({})
        assert faults.read_faults(path, SLOTS)[1] != first


class TestInjector:
    def test_both_files_count(self, make_injector, write):
        standing = faults.Fault(
            kind="scrub", place="boards[0]", device="board0", slot=1
        )
        injector = make_injector(standing)
        assert kinds(injector, 1) == ["scrub"]
        write({"board0": {"core_hang": [{}], "programming": [0]}})
        assert kinds(injector, 1) == ["scrub", "core_hang"]
        assert kinds(injector, 0) == ["core_hang", "programming"]
        assert kinds(injector, 0, "board1") == []

    def test_a_fault_ends_with_its_file(self, make_injector, write):
        path = write({"board0": {"programming": [0]}})
        injector = make_injector()
        assert kinds(injector, 0) == ["programming"]
        path.unlink()
        assert kinds(injector, 0) == []

    def test_an_error_changes_nothing(self, make_injector, write, caplog):
        write({"board0": {"programming": [0]}})
        injector = make_injector()
        assert kinds(injector, 0) == ["programming"]
        write({"board0": {"programming": [9]}})
        assert kinds(injector, 0) == ["programming"]
        assert kinds(injector, 0) == ["programming"]
        assert caplog.text.count("board0.programming[0].slot") == 1

    def test_once_is_once_in_all_processes(self, make_injector, write):
        document = {"board0": {"programming": [{"once": True}]}}
        write(document)
        first, second = make_injector(), make_injector()
        assert first.strike("board0", 2, ("programming",))
        assert second.strike("board0", 1, ("programming",)) is None
        write(document)
        assert second.strike("board0", 1, ("programming",))
        assert first.strike("board0", 2, ("programming",)) is None

    def test_draws_go_on_in_the_next_process(self, make_injector, write):
        document = {"board0": {"scrub": [{"probability": 0.5, "seed": 1}]}}

        def strikes(injector, slot, count):
            return [
                injector.strike("board0", slot, ("scrub",)) is not None
                for _ in range(count)
            ]

        write(document)
        whole = strikes(make_injector(), 0, 40)
        assert 10 < sum(whole) < 30
        write(document)
        parts = strikes(make_injector(), 0, 20) + strikes(
            make_injector(), 0, 20
        )
        assert parts == whole
        assert strikes(make_injector(), 1, 40) != whole

    @pytest.mark.parametrize(("probability", "hit"), [(0, False), (1, True)])
    def test_certainty(self, make_injector, write, probability, hit):
        write({"board0": {"scrub": [{"probability": probability}]}})
        injector = make_injector()
        found = {
            injector.strike("board0", 0, ("scrub",)) is not None
            for _ in range(20)
        }
        assert found == {hit}

    def test_what_happens_is_logged(self, make_injector, write, caplog):
        write({"board0": {"scrub": [1], "dead": "no answer"}})
        injector = make_injector()
        assert injector.strike("board0", 1, ("scrub",)).kind == "scrub"
        assert "FAULT INJECTED: scrub on board0.1 (board0." in caplog.text
        for _ in range(3):
            assert injector.board_fault("board0").message == "no answer"
        assert caplog.text.count("FAULT INJECTED: dead on board0 ") == 1


class TestSession:
    def session(self, injector, slot=0):
        return faults.SessionFaults(injector, "board0", slot)

    def due(self, session, piece_bytes):
        return [fault.kind for fault in session.due(piece_bytes)]

    def test_after_bytes(self, make_injector, write):
        write({"board0": {"core_error": [{"after_bytes": 100}]}})
        session = self.session(make_injector())
        assert self.due(session, 60) == []
        assert self.due(session, 40) == []
        assert self.due(session, 1) == ["core_error"]
        assert self.due(session, 1) == ["core_error"]

    def test_once(self, make_injector, write):
        write({"board0": {"wrong_result": [{"once": True}]}})
        injector = make_injector()
        session = self.session(injector)
        assert self.due(session, 1) == ["wrong_result"]
        assert self.due(session, 1) == []
        assert self.due(self.session(injector, 1), 1) == []

    def test_slow_once_is_one_slow_session(self, make_injector, write):
        write({"board0": {"core_slow": [{"once": True, "slowness": 2}]}})
        injector = make_injector()
        session = self.session(injector)
        assert self.due(session, 1) == self.due(session, 1) == ["core_slow"]
        assert self.due(self.session(injector), 1) == []

    def test_one_draw_for_a_session(self, make_injector, write):
        write({"board0": {"core_error": [{"probability": 0.5}]}})
        injector = make_injector()
        sessions = [self.session(injector) for _ in range(40)]
        first = [self.due(session, 1) for session in sessions]
        assert [self.due(session, 1) for session in sessions] == first
        assert 10 < sum(map(len, first)) < 30

    def test_a_board_dies_after_some_bytes(self, make_injector, write):
        write({"board0": {"dead": {"message": "gone", "after_bytes": 100}}})
        injector = make_injector()
        session = self.session(injector)
        assert self.due(session, 100) == []
        assert injector.board_fault("board0") is None
        assert self.due(session, 1) == ["dead"]
        # A dead board is dead in all its slots.
        assert self.due(self.session(injector, 1), 1) == ["dead"]
        assert make_injector().board_fault("board0").message == "gone"
