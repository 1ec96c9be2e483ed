//! Conversations with a group coordinator: written ones, and any others.

mod properties;
mod script;
mod transcripts;
