//! The C interface of libopportune as it is; opportune.h says what each call promises.
#![allow(non_camel_case_types)]

include!("bindings.rs");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_is_the_one_that_was_bound() {
        // SAFETY: no arguments.
        let version = unsafe { opportune_version() };
        assert_eq!(
            version >> 8,
            OPPORTUNE_VERSION_MAJOR << 8 | OPPORTUNE_VERSION_MINOR
        );
    }

    #[test]
    fn the_library_knows_structures_of_this_size() {
        let size = std::mem::size_of::<opportune_settings>() as u32;
        // SAFETY: zero is a value of each of its fields, and `size` is its own.
        let settings = unsafe {
            let mut settings: opportune_settings = std::mem::zeroed();
            assert_eq!(opportune_settings_init(&mut settings, size), 0);
            settings
        };
        assert_eq!((settings.size, settings.quantum), (size, 10_000_000));
    }
}
