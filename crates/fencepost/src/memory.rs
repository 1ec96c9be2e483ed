//! How the allocator of the C library gives memory back.

/// A buffer of this size or more is mapped by itself, and is the system's again as soon as it is dropped. Below lie the
/// requests and answers that most clients send all day.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const MAPPED_BYTES_MIN: i32 = 256 << 10;

/// Keeps large buffers out of the allocator's pools.
///
/// Left to itself the GNU C library raises this bound to the size of the largest buffer that was ever dropped, 32 MiB at most; from
/// then on such buffers come from a pool of each thread, and stay there. Other C libraries do no such thing.
///
/// Source: mallopt(3); docs/decisions/0037.
pub fn give_large_buffers_back() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    #[allow(unsafe_code, reason = "the allocator's settings have no safe interface")]
    {
        // SAFETY: a number within the allowed range, and no other thread runs yet.
        let is_taken = unsafe { libc::mallopt(libc::M_MMAP_THRESHOLD, MAPPED_BYTES_MIN) };
        assert_eq!(
            is_taken, 1,
            "the allocator refuses {MAPPED_BYTES_MIN} bytes as the bound of mapped buffers"
        );
    }
}
