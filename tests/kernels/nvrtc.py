"""Compiles kernels/*.cu the way the program does, with NVRTC and the headers in memory, for the device generations that
matter and that this NVRTC knows; prints what the assembler says of registers and spills. Fails on any error or warning, and on
registers that are spilled on the generation that the kernels were tuned for, but for a few of one kernel.

    python3 tests/kernels/nvrtc.py [folder with libnvrtc.so.*]    # without: the system's
"""

import concurrent.futures
import ctypes
import glob
import os
import re
import sys

KERNELS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "kernels")
TARGETS = ["sm_75", "sm_80", "sm_90", "sm_100", "sm_120"]
TUNED = "sm_90"
# The generations that are compiled to machine code. The others, whose sources are those of sm_90, are compiled to PTX, in half the time.
TO_MACHINE_CODE = ["sm_75", TUNED]
# Sources that only one generation has, and the target that they are compiled for.
ONLY = {"gram_hopper.cu": ("sm_90", "sm_90a")}
# Bytes of registers that may be spilled on that generation. The decoder of zstd frames is limited to few registers, so that more warps
# run: what it spills is what it needs once a block.
SPILLS = {"vcz_zstd": 192}


def library():
    """libnvrtc of the folder, else the system's."""
    names = ["libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"]
    if len(sys.argv) > 1:
        names = glob.glob(os.path.join(sys.argv[1], "**", "libnvrtc.so.*"), recursive=True)
        if not names:
            sys.exit(f"no libnvrtc.so.* below {sys.argv[1]}")
        for builtins in glob.glob(os.path.join(os.path.dirname(names[0]), "libnvrtc-builtins.so.*")):
            ctypes.CDLL(builtins)  # where the loader would not look
    for name in names:
        try:
            return ctypes.CDLL(name)
        except OSError as error:
            print(error)
    sys.exit("no libnvrtc")


def compile_one(nvrtc, name, source, all_headers, target):
    """(error code, log) of one compilation."""
    program = ctypes.c_void_p()
    n = len(all_headers)
    headers, names = (ctypes.c_char_p * n)(*all_headers.values()), (ctypes.c_char_p * n)(*all_headers)
    rc = nvrtc.nvrtcCreateProgram(ctypes.byref(program), source, name.encode(), n, headers, names)
    if rc != 0:
        sys.exit(f"nvrtcCreateProgram: error {rc}")
    options = [f"--gpu-architecture={target}", "--std=c++17", "-default-device", "--ptxas-options=-v"]
    array = (ctypes.c_char_p * len(options))(*[option.encode() for option in options])
    rc = nvrtc.nvrtcCompileProgram(program, len(options), array)
    size = ctypes.c_size_t()
    nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
    log = ctypes.create_string_buffer(size.value + 1)
    nvrtc.nvrtcGetProgramLog(program, log)
    nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
    return rc, log.value.decode()


def known_targets(nvrtc):
    """The generations that this NVRTC compiles for."""
    count = ctypes.c_int()
    nvrtc.nvrtcGetNumSupportedArchs(ctypes.byref(count))
    known = (ctypes.c_int * count.value)()
    nvrtc.nvrtcGetSupportedArchs(known)
    return [target for target in TARGETS if int(target.split("_")[1]) in set(known)]


def main():
    nvrtc = library()
    major, minor = ctypes.c_int(), ctypes.c_int()
    nvrtc.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
    targets = known_targets(nvrtc)
    print(f"NVRTC {major.value}.{minor.value}: {', '.join(targets)}")
    if TUNED not in targets:
        sys.exit(f"this NVRTC does not know {TUNED}")
    headers = {}
    for path in glob.glob(os.path.join(KERNELS, "*.cuh")):
        with open(path, "rb") as file:
            headers[os.path.basename(path).encode()] = file.read()
    sources = sorted(glob.glob(os.path.join(KERNELS, "*.cu")))
    if not sources:
        sys.exit(f"no *.cu in {KERNELS}")
    failed = False
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as threads:
        compiled = []
        for target in targets:
            for path in sources:
                name = os.path.basename(path)
                compiled_for = target if target in TO_MACHINE_CODE else target.replace("sm_", "compute_")
                generation, exact = ONLY.get(name, (target, compiled_for))
                if generation != target:
                    continue
                with open(path, "rb") as file:
                    compiled.append((target, name, threads.submit(compile_one, nvrtc, name, file.read(), headers, exact)))
        for target, name, done in compiled:
            rc, log = done.result()
            kernels = re.findall(r"Compiling entry function '(\w+)'.*?(\d+) bytes stack frame, (\d+) bytes spill stores, "
                                 r"(\d+) bytes spill loads.*?Used (\d+) registers", log, re.S)
            for kernel, stack, stores, loads, registers in kernels:
                print(f"  {target} {kernel}: {registers} registers, {stack} bytes of stack, spills {stores} and {loads} bytes")
                failed |= target == TUNED and max(int(stack), int(stores), int(loads)) > SPILLS.get(kernel, 0)
            others = [line for line in log.splitlines()
                      if line.strip() and not re.match(r"\s*(ptxas\s+(info|\.)|\d+ bytes stack frame|Function properties)", line)]
            is_ptx = target not in TO_MACHINE_CODE
            if is_ptx and rc == 0 and not others:
                print(f"  {target} {name}: PTX")
            if rc != 0 or others or not (kernels or is_ptx):
                print(f"  {target} {name}: error {rc}\n" + "\n".join(others))
                failed = True
    sys.exit("the kernels do not compile cleanly" if failed else 0)


if __name__ == "__main__":
    main()
