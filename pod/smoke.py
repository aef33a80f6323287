# Proves on the rented machine that the driver can run what NVRTC compiles: compile, load, launch, read back 42.
#
# Usage: smoke.py PAYLOAD CHOSEN DRIVER   (a wheel, zip or tar with the NVRTC libraries; versions as "12.8")
# Prints "nvrtc-loaded X.Y" and ends with 0, or prints one sentence and ends with 1. Standard library only: the runner
# image has python3 but no compiler. It is given no secret.
import ctypes
import os
import shutil
import sys
import tarfile
import tempfile
import zipfile

KERNEL = b'extern "C" __global__ void gate_smoke(int *out) { *out = 42; }'
EXPECTED = 42
COMPUTE_MAJOR, COMPUTE_MINOR = 75, 76  # CUdevice_attribute numbers


class Refused(Exception):
    pass


def pair(text):
    major, _, minor = text.partition(".")
    return int(major), int(minor or 0)


def dotted(version):
    return "%d.%d" % version


def unpack(payload, folder):
    """Takes only the NVRTC libraries, by base name, so that no member can choose its own path."""
    def wanted(name):
        base = os.path.basename(name)
        return base if base.startswith("libnvrtc") and ".so" in base else None

    def store(base, source):
        with source, open(os.path.join(folder, base), "wb") as target:
            shutil.copyfileobj(source, target)

    if zipfile.is_zipfile(payload):
        with zipfile.ZipFile(payload) as archive:
            for name in archive.namelist():
                if wanted(name):
                    store(wanted(name), archive.open(name))
    elif tarfile.is_tarfile(payload):
        with tarfile.open(payload) as archive:
            for member in archive.getmembers():
                if member.isfile() and wanted(member.name):
                    store(wanted(member.name), archive.extractfile(member))
    else:
        raise Refused("the NVRTC payload is neither a zip nor a tar")


def load(folder, chosen):
    """The chosen libraries by full path: an older NVRTC of the image must not win. NVRTC opens its builtins by bare
    name when it compiles, so they are loaded first and globally."""
    names = sorted(os.listdir(folder))
    builtins = [name for name in names if name.startswith("libnvrtc-builtins.so.%s" % dotted(chosen))]
    mains = [name for name in names if name.startswith("libnvrtc.so.%d" % chosen[0])]
    if not builtins or not mains:
        raise Refused("the payload holds no NVRTC %s: %s" % (dotted(chosen), ", ".join(names) or "nothing"))
    ctypes.CDLL(os.path.join(folder, builtins[0]), mode=ctypes.RTLD_GLOBAL)
    return ctypes.CDLL(os.path.join(folder, mains[0]))


def must(library, name, *arguments):
    status = getattr(library, name)(*arguments)
    if status != 0:
        raise Refused("%s answered %d" % (name, status))


def compile_kernel(nvrtc, architecture):
    program = ctypes.c_void_p()
    must(nvrtc, "nvrtcCreateProgram", ctypes.byref(program), KERNEL, b"gate_smoke.cu", 0, None, None)
    options = (ctypes.c_char_p * 1)(architecture)
    must(nvrtc, "nvrtcCompileProgram", program, 1, options)
    size = ctypes.c_size_t()
    must(nvrtc, "nvrtcGetPTXSize", program, ctypes.byref(size))
    if size.value < 2:  # a lone NUL
        raise Refused("NVRTC made an empty program")
    ptx = ctypes.create_string_buffer(size.value)
    must(nvrtc, "nvrtcGetPTX", program, ptx)
    if not ptx.value:
        raise Refused("NVRTC made an empty program")
    return ptx


def run_kernel(cuda, device, ptx):
    context, module, function = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
    # The primary context: its calls kept their signature where cuCtxCreate changed.
    must(cuda, "cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
    must(cuda, "cuCtxSetCurrent", context)
    must(cuda, "cuModuleLoadData", ctypes.byref(module), ptx)
    must(cuda, "cuModuleGetFunction", ctypes.byref(function), module, b"gate_smoke")
    memory, value = ctypes.c_uint64(), ctypes.c_int(0)
    must(cuda, "cuMemAlloc_v2", ctypes.byref(memory), ctypes.c_size_t(4))
    # Known contents first: a stale 42 must not pass for a kernel that ran.
    must(cuda, "cuMemcpyHtoD_v2", memory, ctypes.byref(value), ctypes.c_size_t(4))
    parameters = (ctypes.c_void_p * 1)(ctypes.addressof(memory))
    must(cuda, "cuLaunchKernel", function, 1, 1, 1, 1, 1, 1, 0, None, parameters, None)
    must(cuda, "cuCtxSynchronize")
    must(cuda, "cuMemcpyDtoH_v2", ctypes.byref(value), memory, ctypes.c_size_t(4))
    return value.value


def prove(payload, chosen, driver, folder):
    unpack(payload, folder)
    nvrtc = load(folder, chosen)
    major, minor = ctypes.c_int(), ctypes.c_int()
    must(nvrtc, "nvrtcVersion", ctypes.byref(major), ctypes.byref(minor))
    loaded = (major.value, minor.value)
    print("nvrtc-loaded %s" % dotted(loaded))
    if loaded < chosen:
        raise Refused("loaded NVRTC %s is older than the chosen %s" % (dotted(loaded), dotted(chosen)))
    if loaded > driver:
        raise Refused("loaded NVRTC %s is newer than the driver's %s" % (dotted(loaded), dotted(driver)))

    cuda = ctypes.CDLL("libcuda.so.1")
    must(cuda, "cuInit", 0)
    number = ctypes.c_int()
    must(cuda, "cuDriverGetVersion", ctypes.byref(number))
    library = (number.value // 1000, number.value % 1000 // 10)
    if loaded > library:
        raise Refused("loaded NVRTC %s is newer than libcuda's %s" % (dotted(loaded), dotted(library)))
    must(cuda, "cuDeviceGetCount", ctypes.byref(number))
    if number.value != 1:
        raise Refused("the driver shows %d GPUs instead of 1" % number.value)
    device = ctypes.c_int()
    must(cuda, "cuDeviceGet", ctypes.byref(device), 0)
    must(cuda, "cuDeviceGetAttribute", ctypes.byref(major), COMPUTE_MAJOR, device)
    must(cuda, "cuDeviceGetAttribute", ctypes.byref(minor), COMPUTE_MINOR, device)
    ptx = compile_kernel(nvrtc, b"--gpu-architecture=compute_%d%d" % (major.value, minor.value))
    answer = run_kernel(cuda, device, ptx)
    if answer != EXPECTED:
        raise Refused("the kernel gave %d instead of %d" % (answer, EXPECTED))
    print("compute capability %d.%d, kernel gave %d" % (major.value, minor.value, answer))


def main():
    payload, chosen, driver = sys.argv[1], pair(sys.argv[2]), pair(sys.argv[3])
    with tempfile.TemporaryDirectory() as folder:
        try:
            prove(payload, chosen, driver, folder)
        except (Refused, OSError, AttributeError, zipfile.BadZipFile, tarfile.TarError) as problem:
            print(problem)
            return 1
    return 0


sys.exit(main())
