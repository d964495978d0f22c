//! Links libprecast, which `precast native -o DIR` wrote: `PRECAST=DIR cargo build --release`.
use std::{env, fs};

fn main() {
    println!("cargo:rerun-if-env-changed=PRECAST");
    let folder = env::var("PRECAST").expect("set PRECAST to the folder that `precast native -o DIR` wrote");
    let folder = fs::canonicalize(&folder).expect("PRECAST names no folder: run `precast native -o DIR`");
    let libraries = folder.join("lib").display().to_string();
    println!("cargo:rustc-link-search=native={libraries}");
    println!("cargo:rustc-link-lib=dylib=precast");
    println!("cargo:rustc-link-arg=-Wl,-rpath,{libraries}");
}
