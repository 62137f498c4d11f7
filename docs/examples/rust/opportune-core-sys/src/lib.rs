//! The C interface of libopportune-core as it is; opportune-core.h says what each call promises.
#![allow(non_camel_case_types)]

include!("bindings.rs");

#[cfg(test)]
mod tests {
    #[test]
    fn the_library_is_the_one_that_was_bound() {
        // SAFETY: no arguments.
        let version = unsafe { super::oppc_version() };
        assert_eq!(
            version >> 8,
            super::OPPC_VERSION_MAJOR << 8 | super::OPPC_VERSION_MINOR
        );
    }
}
