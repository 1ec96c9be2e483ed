//! Random lives.
