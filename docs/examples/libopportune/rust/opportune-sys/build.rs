//! Asks pkg-config where the library is. The bindings are in src/bindings.rs, made by scripts/bind-rust.

use std::process::Command;

fn main() {
    println!("cargo:rerun-if-env-changed=PKG_CONFIG_PATH");
    let output = Command::new("pkg-config")
        .args(["--libs", "opportune >= 0.1", "opportune < 0.2"])
        .output()
        .expect("pkg-config is needed to find libopportune");
    if !output.status.success() {
        panic!("pkg-config: {}", String::from_utf8_lossy(&output.stderr));
    }
    for flag in String::from_utf8_lossy(&output.stdout).split_whitespace() {
        if let Some(folder) = flag.strip_prefix("-L") {
            println!("cargo:rustc-link-search=native={folder}");
        } else if let Some(name) = flag.strip_prefix("-l") {
            println!("cargo:rustc-link-lib=dylib={name}");
        }
    }
}
