//! Conversations with a group coordinator: written ones, and any others.

mod properties;
mod reconciliation;
mod script;
mod transcripts;
