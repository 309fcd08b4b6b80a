package backend

/*
#cgo LDFLAGS: -ldl
#include <dlfcn.h>
#include <stddef.h>
#include <stdlib.h>

// The head of PJRT_Api, fixed since version 0.1 of the C API.
typedef struct {
	size_t struct_size;
	void *extension_start;
	struct {
		size_t struct_size;
		void *extension_start;
		int major;
		int minor;
	} version;
} api_head;

static const char *load_library(const char *path, int flags, void **handle) {
	*handle = dlopen(path, flags);
	return *handle ? NULL : dlerror();
}

static const char *api_version(const char *path, const char *symbol, int *major, int *minor) {
	void *handle;
	const char *err = load_library(path, RTLD_LAZY | RTLD_LOCAL, &handle);
	if (err) return err;
	const api_head *(*get)(void) = (const api_head *(*)(void))dlsym(handle, symbol);
	if (!get) return "no such symbol";
	const api_head *api = get();
	if (!api) return "it returned no API";
	*major = api->version.major;
	*minor = api->version.minor;
	return NULL;
}
*/
import "C"

import (
	"errors"
	"runtime"
	"unsafe"
)

// Oldest PJRT C API that go-xla was seen working with. Newer plugins keep old callers working.
const minMajor, minMinor = 0, 81

// apiVersion loads the plugin for good and reads its PJRT API version.
func apiVersion(path string) (major, minor int, err error) {
	runtime.LockOSThread() // dlerror is per thread
	defer runtime.UnlockOSThread()
	cPath, cSymbol := C.CString(path), C.CString(apiSymbol)
	defer C.free(unsafe.Pointer(cPath))
	defer C.free(unsafe.Pointer(cSymbol))
	var a, b C.int
	if msg := C.api_version(cPath, cSymbol, &a, &b); msg != nil {
		return 0, 0, fail(ErrPlugin, "plugin %s: %s: install it anew with `terraloom backend install`", path, C.GoString(msg))
	}
	major, minor = int(a), int(b)
	if major < minMajor || major == minMajor && minor < minMinor {
		return major, minor, fail(ErrTooOld, "plugin %s: speaks PJRT API %d.%d, this program needs %d.%d or newer: install a newer one with `terraloom backend install`", path, major, minor, minMajor, minMinor)
	}
	return major, minor, nil
}

// loadLibrary loads a library so that later lookups by name find it.
func loadLibrary(path string) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cPath := C.CString(path)
	defer C.free(unsafe.Pointer(cPath))
	var handle unsafe.Pointer
	if msg := C.load_library(cPath, C.RTLD_LAZY|C.RTLD_GLOBAL, &handle); msg != nil {
		return errors.New(C.GoString(msg))
	}
	return nil
}
