//! A crash at every call.
