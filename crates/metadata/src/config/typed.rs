//! Structs whose fields are values of keys.

use alloc::string::String;
use alloc::vec::Vec;

use crate::keys::Value;

/// Makes a field of a value that the table has already checked.
pub(crate) trait FromValue: Sized {
    fn from_value(value: Option<Value>) -> Option<Self>;
}

impl FromValue for bool {
    fn from_value(value: Option<Value>) -> Option<Self> {
        value?.as_bool()
    }
}

impl FromValue for i64 {
    fn from_value(value: Option<Value>) -> Option<Self> {
        value?.as_number()
    }
}

impl FromValue for i32 {
    fn from_value(value: Option<Value>) -> Option<Self> {
        i64::from_value(value)?.try_into().ok()
    }
}

impl FromValue for i16 {
    fn from_value(value: Option<Value>) -> Option<Self> {
        i64::from_value(value)?.try_into().ok()
    }
}

impl FromValue for f64 {
    fn from_value(value: Option<Value>) -> Option<Self> {
        value?.as_real()
    }
}

impl FromValue for String {
    fn from_value(value: Option<Value>) -> Option<Self> {
        value?.as_text().map(Self::from)
    }
}

impl FromValue for Vec<String> {
    fn from_value(value: Option<Value>) -> Option<Self> {
        value?.as_list().map(<[String]>::to_vec)
    }
}

impl<T: FromValue> FromValue for Option<T> {
    fn from_value(value: Option<Value>) -> Option<Self> {
        match value {
            None => Some(None),
            some => T::from_value(some).map(Some),
        }
    }
}

/// Declares a struct with one field per key, and `read`, which fills it.
macro_rules! typed_config {
    ($(#[$doc:meta])* $name:ident in $scope:expr => { $($field:ident: $kind:ty = $key:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq)]
        pub struct $name {
            $(#[doc = concat!("`", $key, "`")] pub $field: $kind,)*
        }

        impl $name {
            /// The keys it is made of.
            pub const KEYS: &'static [&'static str] = &[$($key),*];

            /// Fills each field with what `value` says about its key. The table has a default for each that is not
            /// optional, and has checked the type.
            fn read(value: impl Fn(&'static $crate::keys::Key) -> Option<$crate::keys::Value>) -> Self {
                Self {
                    $($field: {
                        let key = $scope.find($key).expect(concat!("the table has ", $key));
                        $crate::config::typed::FromValue::from_value(value(key))
                            .expect(concat!("the table has the type of ", $key))
                    },)*
                }
            }
        }
    };
}

pub(super) use typed_config;
