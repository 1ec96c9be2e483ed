//! A continuation that several conditions race for, and exactly one gets.

use std::sync::Mutex;

/// Holds a value until the first taker.
pub struct Once<T> {
    slot: Mutex<Option<T>>,
}

impl<T> Once<T> {
    /// Holds `value`.
    pub fn new(value: T) -> Self {
        Self { slot: Mutex::new(Some(value)) }
    }

    /// The value, to the first caller alone.
    pub fn take(&self) -> Option<T> {
        self.slot.lock().expect("no holder of this lock panics").take()
    }

    /// Whether it has been taken.
    pub fn is_taken(&self) -> bool {
        self.slot.lock().expect("no holder of this lock panics").is_none()
    }
}
