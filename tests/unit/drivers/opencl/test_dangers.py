# SPDX-License-Identifier: Apache-2.0

"""What a source may not contain, however it is written."""

import random
import time

import pytest

from fpgapool.drivers.opencl import kernels
from fpgapool.drivers.opencl import wiping
from fpgapool.drivers.opencl.contents import dangers
from tests.unit.drivers.opencl import packages

HARMLESS = [
    packages.SOURCE.decode(),
    "#pragma OPENCL EXTENSION cl_khr_fp64 : enable",
    "# pragma OPENCL FP_CONTRACT OFF",
    "#pragma unroll 4",
    "#pragma unroll",
    "// asm, extern, #include <x>, ##, it's __builtin_trap()",
    "/* asm \" ' \\\n extern */",
    'printf("asm extern ## \\" // %c", \'"\');',
    "kernel __attribute__((reqd_work_group_size(64, 1, 1))) void f()",
    "struct __attribute__ ((packed, __aligned__(4))) s { char c; };",
    "__kernel void f(__global const uchar *restrict p)",
    "#if __OPENCL_VERSION__ >= 120\n#define __GUARD\n#endif",
    "#define TWICE(x) \\\n    ((x) + (x))",
    "x = a[b[0]] ? y : z;",
    "#include_guard",
    "#define HALF(x) (x / 2)\nkernel __attribute__((aligned(4))) void f()",
    "#error not on\t/* this */ device\n#warning slow // here\nint x;",
    "\ufeffint x;\r\n",
    "x = a ? b : c; // é \u00a0",
]

DANGERS = [
    ("assembly", 'asm("nop");'),
    ("assembly", '__asm__ volatile ("nop");'),
    ("assembly", 'as\\\nm("nop");'),
    ("assembly", '__a\\  \r\nsm("nop");'),
    ("assembly", '/*/ it\'s */ asm("nop"); /* */'),
    ("assembly", "'\\'' // \\\n\nasm"),
    ("assembly", "#define DO asm"),
    ("attributes", "__attribute__((constructor)) void f() {}"),
    ("attributes", '__attribute__((aligned(4), section("x")))'),
    ("attributes", "__attribute ((__destructor__))"),
    ("attributes", "#define aligned constructor\n__attribute__((aligned))"),
    (
        "attributes",
        "#define A 4), constructor, aligned(4\n__attribute__((aligned(A)))",
    ),
    ("attributes", "#define A __attribute__((aligned(4)\n))\nA, ifunc))"),
    ("attributes", "#define P (\n__attribute__ P P constructor))"),
    ("attributes", "#define A(...) __attribute__((__VA_ARGS__))"),
    ("attributes", "__attribute__((packed)"),
    ("attributes", "__attribute__"),
    ("attributes", "#define A(aligned) __attribute__((aligned))"),
    ("attributes", "#define A(y, x) __attribute__((aligned(x)))"),
    ("attributes", "#define A(/*\n*/x...) __attribute__((aligned(x)))"),
    ("attributes", "#define A(...) __attribute__((aligned(__VA_ARGS__)))"),
    ("attributes", "kernel_exec(1, HIDDEN) void f() {}"),
    ("attributes", f"__attribute__((aligned({'4 ' * 100})))"),
    ("attributes", "#define E\n[E[gnu::constructor]] void f();"),
    ("attributes", "#define L [\nL [gnu::constructor]] void f();"),
    ("attributes", "[[gnu::constructor]] void f();"),
    ("attributes", "[ /* */\n [gnu::constructor]] void f();"),
    ("builtins", "__builtin_return_address(0);"),
    ("builtins", "__sync_fetch_and_add(p, 1);"),
    ("builtins", "__declspec(dllexport)"),
    ("builtins", "_pocl_memfill(p);"),
    ("externals", "extern constant char environ[];"),
    ("externals", "#define e extern"),
    ("includes", "#include <stdio.h>"),
    ("includes", '  # /* */ include "x"'),
    ("includes", "#inc\\\nlude X"),
    ("includes", '#import "x"'),
    ("includes", '#embed "/etc/passwd"'),
    ("pasting", "#define J(a, b) a ## b"),
    ("pragmas", "#pragma clang attribute push"),
    (
        "pragmas",
        "#pragma OPENCL EXTENSION function_pointers : enable",
    ),
    ("pragmas", "#define cl_x other\n#pragma OPENCL EXTENSION cl_x : enable"),
    ("pragmas", "#/**/pragma GCC poison"),
    ("pragmas", '_Pragma("GCC x")'),
    ("", "??=pragma GCC x"),
    ("", "// ??/\nint x;"),
    ("", "#warning /*\nint x;\n#warning */"),
    ("", " # /* */ err\\\nor x /* \n */"),
    ("", "int ab\\\n\rcd;"),
    ("", "int a;\rint b;"),
    ("", "/* *\\\0\n/ int x; /* */"),
    ("", "#\u00a0define A"),
    ("", "#\u2003define A"),
    ("", "%:pragma GCC x"),
    ("", "<:<:x:>:>"),
    ("", "#if 0\n' /*\n#endif\nint x; /* */"),
    ("", "int \\u0061sm;"),
    ("", 'R"(" /* )" int x; /* */'),
]


@pytest.mark.parametrize("source", HARMLESS)
def test_usual_sources_have_no_dangers(source):
    assert dangers.find(source.encode()) == []
    dangers.check(source.encode(), ())


@pytest.mark.parametrize("name", kernels.names())
def test_shipped_kernels_have_no_dangers(name):
    _, source = kernels.read(name)
    assert dangers.find(source) == []
    assert dangers.find(wiping.SOURCE) == []


@pytest.mark.parametrize(("risk", "source"), DANGERS)
def test_each_danger_is_found_under_its_name(risk, source):
    found = dangers.find(source.encode())
    assert {each.risk for each in found} == {risk}
    with pytest.raises(dangers.SourceRefused) as refused:
        dangers.check(source.encode(), set(dangers.RISKS) - {risk})
    assert refused.value.code == "SOURCE_REFUSED"
    assert (f"--allow-{risk}" if risk else "may hide") in str(refused.value)


@pytest.mark.parametrize(
    ("risk", "source"), [each for each in DANGERS if each[0]]
)
def test_a_danger_may_be_allowed(risk, source):
    dangers.check(source.encode(), {risk})


def test_what_hides_words_is_never_allowed():
    with pytest.raises(dangers.SourceRefused):
        dangers.check(b"%:pragma x", set(dangers.RISKS))


@pytest.mark.parametrize(
    "part",
    [
        *("x = a[1];\n", "[\n", "# ", "#pragma unroll ", "a ? b : c\n"),
        *("__attribute__((aligned( ", "??=", "#define A( "),
    ],
)
def test_the_time_is_proportional_to_the_length(part):
    def cpu_s(size: int) -> float:
        text = (part * size).encode()[:size]
        before_s = time.process_time()
        dangers.find(text)
        return time.process_time() - before_s

    shorter_s = min(cpu_s(1 << 14) for _ in range(3))
    # Eightfold with room for noise; a quadratic one takes 64 times as long.
    assert cpu_s(1 << 17) < 30 * shorter_s


def test_places_are_those_of_the_file():
    source = b"int a;\\\r\n\\\n int b; // x\n\n/* \n */ asm ;\r\nextern int c;"
    assert [(each.line, each.what) for each in dangers.find(source)] == [
        (6, "asm"),
        (7, "extern"),
    ]


def test_a_long_list_is_cut_short():
    with pytest.raises(dangers.SourceRefused) as refused:
        dangers.check(b"asm " * 1000, ())
    assert str(refused.value).endswith("; and 995 more")


def test_no_splice_space_or_comment_hides_a_word():
    rng = random.Random(48)
    quiet = ["/* asm */", "// it's\n", " ", "\t", "x = 1;", '"asm"', "'\"'"]
    for _ in range(2000):
        word = rng.choice(["asm", "__asm__", "extern", "__builtin_trap"])
        cut = rng.randrange(len(word) + 1)
        splice = rng.choice(["", "\\\n", "\\ \n", "\\\r\n", "\\\n\\\n"])
        parts = rng.choices(quiet, k=rng.randrange(6))
        # Not after a comment to the end of the line.
        around = "".join(parts)
        source = f"{around} {word[:cut]}{splice}{word[cut:]} {around}"
        assert [each.what for each in dangers.find(source.encode())] == [word]
