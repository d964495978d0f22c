//! The few functions of the CUDA driver that the example needs, found at run time: no CUDA toolkit is needed to build it.
use std::ffi::{c_char, c_int, c_void, CString};
use std::mem::transmute_copy;
use std::ptr::null_mut;

extern "C" {
    fn dlopen(path: *const c_char, mode: c_int) -> *mut c_void;
    fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
}

const NOW: c_int = 2;

pub struct Cuda {
    library: *mut c_void,
}

/// A word that a function of the driver takes: a number or an address.
type Word = usize;

impl Cuda {
    /// The driver with the primary context of the first device.
    pub fn start() -> Result<Cuda, String> {
        let path = CString::new("libcuda.so.1").expect("no null");
        // SAFETY: the path ends with a null.
        let library = unsafe { dlopen(path.as_ptr(), NOW) };
        if library.is_null() {
            return Err("libcuda.so.1 is not installed: run this on a machine with an NVIDIA GPU".into());
        }
        let cuda = Cuda { library };
        let (mut device, mut context): (c_int, *mut c_void) = (0, null_mut());
        cuda.call("cuInit", [0])?;
        cuda.call("cuDeviceGet", [&mut device as *mut c_int as Word, 0])?;
        cuda.call("cuDevicePrimaryCtxRetain", [&mut context as *mut _ as Word, device as Word])?;
        cuda.call("cuCtxSetCurrent", [context as Word])?;
        Ok(cuda)
    }

    /// Call a function by its name. All that are called here take numbers and addresses, each in a register.
    pub fn call<const N: usize>(&self, name: &str, words: [Word; N]) -> Result<(), String> {
        let text = CString::new(name).expect("no null");
        // SAFETY: the name ends with a null; what it stands for takes four words at most and ignores further ones.
        let code = unsafe {
            let found = dlsym(self.library, text.as_ptr());
            if found.is_null() {
                return Err(format!("libcuda.so.1 has no {name}"));
            }
            let function: extern "C" fn(Word, Word, Word, Word) -> c_int = transmute_copy(&found);
            let word = |place: usize| words.get(place).copied().unwrap_or(0);
            function(word(0), word(1), word(2), word(3))
        };
        if code == 0 { Ok(()) } else { Err(format!("{name} returned error {code}")) }
    }

    pub fn allocate(&self, bytes: usize) -> Result<*mut c_void, String> {
        let mut pointer: u64 = 0;
        self.call("cuMemAlloc_v2", [&mut pointer as *mut u64 as Word, bytes])?;
        Ok(pointer as *mut c_void)
    }

    pub fn to_device(&self, to: *mut c_void, from: &[u16]) -> Result<(), String> {
        self.call("cuMemcpyHtoD_v2", [to as Word, from.as_ptr() as Word, size_of_val(from)])
    }

    pub fn to_host(&self, to: &mut [u16], from: *mut c_void) -> Result<(), String> {
        self.call("cuMemcpyDtoH_v2", [to.as_mut_ptr() as Word, from as Word, size_of_val(to)])
    }

    pub fn stream(&self) -> Result<*mut c_void, String> {
        let mut stream: *mut c_void = null_mut();
        self.call("cuStreamCreate", [&mut stream as *mut _ as Word, 1])?; // it does not wait for the default stream
        Ok(stream)
    }

    pub fn wait(&self, stream: *mut c_void) -> Result<(), String> {
        self.call("cuStreamSynchronize", [stream as Word])
    }
}
