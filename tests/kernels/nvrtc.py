"""Compiles kernels/*.cu the way the program does, with NVRTC and the one header in memory, for every device generation that
this NVRTC knows of those that matter; prints what the compiler says, with registers and spills. Fails on any error, on any
warning, and where registers are spilled for a real device.

    python tests/kernels/nvrtc.py            # needs the PyPI package nvidia-cuda-nvrtc (or -cu12, or a CUDA toolkit)
"""

import ctypes
import glob
import os
import re
import site
import sys

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "kernels")
TARGETS = ["compute_75", "compute_80", "sm_75", "sm_80", "sm_90", "sm_100", "sm_120"]


def library():
    """The newest libnvrtc.so of the Python packages, or the system's."""
    found = []
    for folder in site.getsitepackages() + sys.path:
        found += glob.glob(os.path.join(folder, "nvidia", "**", "libnvrtc.so.*"), recursive=True)
    for path in sorted(set(found), reverse=True) + ["libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"]:
        try:
            return ctypes.CDLL(path), path
        except OSError:
            pass
    sys.exit("libnvrtc.so not found: pip install nvidia-cuda-nvrtc")


def compile_one(nvrtc, name, source, header, target):
    """(error code, log) of one compilation."""
    program = ctypes.c_void_p()
    headers, names = (ctypes.c_char_p * 1)(header), (ctypes.c_char_p * 1)(b"vcz.cuh")
    rc = nvrtc.nvrtcCreateProgram(ctypes.byref(program), source, name.encode(), 1, headers, names)
    if rc != 0:
        sys.exit(f"nvrtcCreateProgram: {rc}")
    options = [f"-arch={target}", "--std=c++17"]
    if target.startswith("sm_"):
        options.append("--ptxas-options=-v")
    array = (ctypes.c_char_p * len(options))(*[option.encode() for option in options])
    rc = nvrtc.nvrtcCompileProgram(program, len(options), array)
    size = ctypes.c_size_t()
    nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
    log = ctypes.create_string_buffer(size.value + 1)
    nvrtc.nvrtcGetProgramLog(program, log)
    nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
    return rc, log.value.decode()


def main():
    nvrtc, path = library()
    major, minor = ctypes.c_int(), ctypes.c_int()
    nvrtc.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
    count = ctypes.c_int()
    nvrtc.nvrtcGetNumSupportedArchs(ctypes.byref(count))
    known = (ctypes.c_int * count.value)()
    nvrtc.nvrtcGetSupportedArchs(known)
    known = set(known)
    print(f"NVRTC {major.value}.{minor.value} ({os.path.basename(path)})")

    with open(os.path.join(ROOT, "vcz.cuh"), "rb") as file:
        header = file.read()
    sources = sorted(glob.glob(os.path.join(ROOT, "*.cu")))
    if not sources:
        sys.exit(f"no *.cu in {ROOT}")
    failed = False
    for target in TARGETS:
        if int(target.split("_")[1]) not in known:
            print(f"{target}: this NVRTC does not know it")
            continue
        for path in sources:
            name = os.path.basename(path)
            with open(path, "rb") as file:
                rc, log = compile_one(nvrtc, name, file.read(), header, target)
            kernels = re.findall(r"Compiling entry function '(\w+)'.*?"
                                 r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads.*?"
                                 r"Used (\d+) registers", log, re.S)
            for kernel, stack, stores, loads, registers in kernels:
                print(f"{target} {name} {kernel}: {registers} registers, {stack} bytes of stack, spills {stores} + {loads}")
                failed |= stack != "0" or stores != "0" or loads != "0"
            others = [line for line in log.splitlines()
                      if line.strip() and not re.match(r"\s*(ptxas (info|\s*\.)|\d+ bytes stack frame)", line)]
            if rc != 0 or others:
                print(f"{target} {name}: error {rc}\n" + "\n".join(others))
                failed = True
            elif not kernels:
                print(f"{target} {name}: compiles")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
