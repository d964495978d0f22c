//! Runs two kernels, one behind the other on a stream, without Python: out = 0.5 * rmsnorm(x) * weight.
//!
//! norm FOLDER [ROWS]
mod cuda;
mod precast;

use cuda::Cuda;
use precast::{Table, Tensor, BFLOAT, CUDA};
use std::ffi::c_void;
use std::time::Instant;
use std::{env, process};

const HIDDEN: usize = 4096;
const EPS: f64 = 1e-6;
const FACTOR: f64 = 0.5;
const CALLS: u32 = 2000;

fn to_f64(value: u16) -> f64 {
    f32::from_bits((value as u32) << 16) as f64
}

fn to_bfloat16(value: f32) -> u16 {
    let bits = value.to_bits();
    ((bits + 0x7fff + ((bits >> 16) & 1)) >> 16) as u16
}

fn numbers(count: usize, mut seed: u32) -> Vec<u16> {
    let mut next = || {
        seed = seed.wrapping_mul(1664525).wrapping_add(1013904223);
        to_bfloat16((seed >> 8) as f32 / 8388608.0 - 1.0)
    };
    (0..count).map(|_| next()).collect()
}

/// The view of bfloat16 numbers on the first GPU; the slices live as long as it is used.
fn view(data: *mut c_void, shape: &[i64], strides: &[i64]) -> Tensor {
    Tensor {
        data,
        device_type: CUDA,
        device: 0,
        rank: shape.len() as i32,
        code: BFLOAT,
        bits: 16,
        lanes: 1,
        shape: shape.as_ptr(),
        strides: strides.as_ptr(),
        byte_offset: 0,
    }
}

/// The greatest difference from what the kernels should give, as a part of the value.
fn worst(x: &[u16], weight: &[u16], out: &[u16]) -> f64 {
    let mut most = 0.0f64;
    for (row, found) in x.chunks(HIDDEN).zip(out.chunks(HIDDEN)) {
        let squares: f64 = row.iter().map(|&v| to_f64(v) * to_f64(v)).sum();
        let scale = FACTOR / (squares / HIDDEN as f64 + EPS).sqrt();
        for ((&v, &w), &o) in row.iter().zip(weight).zip(found) {
            let expected = to_f64(v) * scale * to_f64(w);
            most = most.max((to_f64(o) - expected).abs() / expected.abs().max(1e-3));
        }
    }
    most
}

fn run(folder: &str, rows: usize) -> Result<bool, String> {
    let table = Table::open(folder)?;
    let cuda = Cuda::start()?;
    let rmsnorm = table.get("rmsnorm", r#"{"dtype": "bfloat16", "hidden": 4096}"#)?;
    let scale = table.get("scale", r#"{"dtype": "bfloat16"}"#)?;
    println!("rmsnorm {} for {}", rmsnorm.config(), rmsnorm.target());
    println!("scale   {} for {}", scale.config(), scale.target());

    let count = rows * HIDDEN;
    let (x, weight, mut out) = (numbers(count, 1), numbers(HIDDEN, 2), vec![0u16; count]);
    let (on_x, on_weight, on_out) = (cuda.allocate(count * 2)?, cuda.allocate(HIDDEN * 2)?, cuda.allocate(count * 2)?);
    cuda.to_device(on_x, &x)?;
    cuda.to_device(on_weight, &weight)?;

    let (matrix, row, flat) = ([rows as i64, HIDDEN as i64], [HIDDEN as i64], [count as i64]);
    let (steps, one) = ([HIDDEN as i64, 1], [1i64]);
    let (tensor_x, tensor_out) = (view(on_x, &matrix, &steps), view(on_out, &matrix, &steps));
    let (tensor_weight, vector) = (view(on_weight, &row, &one), view(on_out, &flat, &one));
    let stream = cuda.stream()?;
    let norm = [(&tensor_x).into(), (&tensor_weight).into(), (&tensor_out).into(), EPS.into()];
    // SAFETY: the shapes are those of the kernels, and the memory is never freed.
    unsafe {
        rmsnorm.launch(stream, &norm)?;
        scale.launch(stream, &[(&vector).into(), (&vector).into(), FACTOR.into()])?;
    }
    cuda.wait(stream)?;
    cuda.to_host(&mut out, on_out)?;
    let apart = worst(&x, &weight, &out);
    println!("{rows} rows: the greatest relative difference is {apart:.4}");

    let start = Instant::now();
    for _ in 0..CALLS {
        unsafe { rmsnorm.launch(stream, &norm)? };
    }
    let host = start.elapsed();
    cuda.wait(stream)?;
    println!(
        "rmsnorm: {:.2} us a call on the host, {:.2} us with the GPU",
        host.as_secs_f64() * 1e6 / f64::from(CALLS),
        start.elapsed().as_secs_f64() * 1e6 / f64::from(CALLS)
    );
    Ok(apart < 0.02)
}

fn main() {
    let words: Vec<String> = env::args().collect();
    let rows = words.get(2).map_or(Some(64), |word| word.parse().ok());
    let (Some(folder), Some(rows)) = (words.get(1), rows) else {
        eprintln!("usage: norm FOLDER [ROWS]");
        process::exit(2);
    };
    match run(folder, rows) {
        Ok(true) => {}
        Ok(false) => process::exit(1),
        Err(error) => {
            eprintln!("error: {error}");
            process::exit(1);
        }
    }
}
