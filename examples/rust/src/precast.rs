//! precast.h in Rust: folders and kernels as values, errors as texts.
use std::ffi::{c_char, c_void, CStr, CString};
use std::ptr::{null, null_mut};

/// The version of the interface that this file was written for.
pub const ABI: i32 = 1;

#[repr(C)]
struct RawRequest {
    size: usize,
    op: *const c_char,
    config: *const c_char,
    problem: *const c_char,
    target: *const c_char,
    device: i32,
}

/// DLPack's view of a tensor.
#[repr(C)]
pub struct Tensor {
    pub data: *mut c_void,
    pub device_type: i32,
    pub device: i32,
    pub rank: i32,
    pub code: u8,
    pub bits: u8,
    pub lanes: u16,
    pub shape: *const i64,
    pub strides: *const i64,
    pub byte_offset: u64,
}

/// DLPack's numbers for a CUDA device, and for bfloat16.
pub const CUDA: i32 = 2;
pub const BFLOAT: u8 = 4;

#[repr(C)]
union Content {
    real: f64,
    tensor: *const Tensor,
}

/// An argument of a kernel.
#[repr(C)]
pub struct Value {
    kind: i32,
    count: i32,
    content: Content,
}

impl From<&Tensor> for Value {
    fn from(tensor: &Tensor) -> Value {
        Value { kind: 5, count: 0, content: Content { tensor } }
    }
}

impl From<f64> for Value {
    fn from(real: f64) -> Value {
        Value { kind: 3, count: 0, content: Content { real } }
    }
}

extern "C" {
    fn precast_abi() -> i32;
    fn precast_free(text: *mut c_char);
    fn precast_open(folder: *const c_char, options: *const c_void, table: *mut *mut c_void, error: *mut *mut c_char) -> i32;
    fn precast_close(table: *mut c_void);
    fn precast_get(table: *mut c_void, request: *const RawRequest, kernel: *mut *mut c_void, error: *mut *mut c_char) -> i32;
    fn precast_release(kernel: *mut c_void);
    fn precast_config(kernel: *const c_void) -> *const c_char;
    fn precast_target(kernel: *const c_void) -> *const c_char;
    fn precast_call(kernel: *mut c_void, values: *const Value, count: usize, stream: *mut c_void, error: *mut *mut c_char) -> i32;
}

fn check(status: i32, error: *mut c_char) -> Result<(), String> {
    if status == 0 {
        return Ok(());
    }
    if error.is_null() {
        return Err("there is not enough memory".into());
    }
    // SAFETY: the library returned the text, which ends with a null and is ours to free.
    let text = unsafe { CStr::from_ptr(error) }.to_string_lossy().into_owned();
    unsafe { precast_free(error) };
    Err(text)
}

fn c_text(text: &str) -> Result<CString, String> {
    CString::new(text).map_err(|_| "a text holds a null: remove it".to_string())
}

/// A folder that `precast native CACHE --requests FILE` made.
pub struct Table(*mut c_void);

impl Table {
    pub fn open(folder: &str) -> Result<Table, String> {
        let folder = c_text(folder)?;
        // SAFETY: the text lives until the call ends, and null options are allowed.
        unsafe {
            if precast_abi() < ABI {
                return Err(format!("libprecast has interface {}, older than {ABI}: build a newer one", precast_abi()));
            }
            let (mut table, mut error) = (null_mut(), null_mut());
            check(precast_open(folder.as_ptr(), null(), &mut table, &mut error), error)?;
            Ok(Table(table))
        }
    }

    /// The kernel of a request, as the file of requests has it, on the current device.
    pub fn get(&self, op: &str, config: &str) -> Result<Kernel, String> {
        let (op, config) = (c_text(op)?, c_text(config)?);
        let request = RawRequest {
            size: size_of::<RawRequest>(),
            op: op.as_ptr(),
            config: config.as_ptr(),
            problem: null(),
            target: null(),
            device: 0,
        };
        let (mut kernel, mut error) = (null_mut(), null_mut());
        // SAFETY: the table is open, and the request lives until the call ends.
        check(unsafe { precast_get(self.0, &request, &mut kernel, &mut error) }, error)?;
        Ok(Kernel(kernel))
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        // SAFETY: it was opened, and is closed once; kernels of it stay good.
        unsafe { precast_close(self.0) }
    }
}

pub struct Kernel(*mut c_void);

impl Kernel {
    pub fn config(&self) -> String {
        // SAFETY: the text lives as long as the kernel.
        unsafe { CStr::from_ptr(precast_config(self.0)) }.to_string_lossy().into_owned()
    }

    pub fn target(&self) -> String {
        // SAFETY: the text lives as long as the kernel.
        unsafe { CStr::from_ptr(precast_target(self.0)) }.to_string_lossy().into_owned()
    }

    /// Launch on a stream.
    ///
    /// # Safety
    /// The tensors must have the shapes that the kernel takes, their memory must be on the GPU until the launch has run,
    /// and the stream must be one of the current context.
    pub unsafe fn launch(&self, stream: *mut c_void, values: &[Value]) -> Result<(), String> {
        let mut error = null_mut();
        check(precast_call(self.0, values.as_ptr(), values.len(), stream, &mut error), error)
    }
}

impl Drop for Kernel {
    fn drop(&mut self) {
        // SAFETY: it is released once.
        unsafe { precast_release(self.0) }
    }
}
