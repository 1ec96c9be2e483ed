//! Log directories after a kill, damaged in many ways, served as whole nodes.
