//! The Python package `credence_trust` (DESIGN, *Python, and other programs*): this is its native part, `credence_trust._native`. Python
//! code around it is in `credence_trust/`, its types in `_native.pyi`.
//!
//! - [`value`]: Python values as JSON values;
//! - [`engine`]: the verification engine under the names of seed 2;
//! - [`guard`]: the guard inside a Python program; [`remote`]: one that another process runs;
//! - [`authority`]: answers of an authority, checked.
#![forbid(unsafe_code)]

mod authority;
mod engine;
mod guard;
mod remote;
mod value;

use pyo3::prelude::*;

/// Results are made of many small pieces, which are let go by another thread.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The native part of `credence_trust`.
#[pymodule]
mod _native {
    #[pymodule_export]
    use super::authority::{check_response, parse_keys};
    #[pymodule_export]
    use super::engine::{Engine, VerificationResult};
    #[pymodule_export]
    use super::guard::{
        Begun, GuardCore, GuardUnavailable, Verdict, canonical_form, check_caller, configured_mode, is_canonical,
        printed, release_locks_in_child, take_warnings, verdict_from_json,
    };
    #[pymodule_export]
    use super::remote::{RemoteBegun, RemoteCore};
    #[pymodule_export]
    use super::value::Items;
}
