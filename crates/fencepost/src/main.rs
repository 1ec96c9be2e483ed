//! Placeholder page.
fn main() {}
