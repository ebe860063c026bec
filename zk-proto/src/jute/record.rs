//! Macros for the two shapes of nearly all of the protocol: records of fields, and integers with
//! names.
//!
//! Both are declared as tables, so that a record reads like its declaration in ZooKeeper's own jute
//! file, and its two directions cannot diverge.

/// Declares a record: the struct, and both directions field by field in wire order.
macro_rules! record {
    (
        $(#[$meta:meta])* $name:ident<$lt:lifetime> {
            $($(#[$note:meta])* $field:ident: $kind:ty,)*
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[expect(clippy::exhaustive_structs, reason = "the protocol fixes a record's fields")]
        pub struct $name<$lt> { $($(#[$note])* pub $field: $kind,)* }

        impl<$lt> $crate::jute::Decode<$lt> for $name<$lt> {
            #[inline]
            fn decode(
                reader: &mut $crate::jute::Reader<$lt>,
            ) -> Result<Self, $crate::error::DecodeError> {
                Ok(Self { $($field: $crate::jute::Decode::decode(reader)?,)* })
            }
        }

        impl $crate::jute::Encode for $name<'_> {
            #[inline]
            fn encode(&self, _writer: &mut $crate::jute::Writer<'_>) {
                $($crate::jute::Encode::encode(&self.$field, _writer);)*
            }
        }

        $crate::jute::inspect! { <$lt> $name<$lt>, $name { $($field: $kind,)* } }
    };
    ($(#[$meta:meta])* $name:ident) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[expect(clippy::exhaustive_structs, reason = "the protocol fixes a record's fields")]
        pub struct $name;

        impl<'a> $crate::jute::Decode<'a> for $name {
            #[inline]
            fn decode(
                _: &mut $crate::jute::Reader<'a>,
            ) -> Result<Self, $crate::error::DecodeError> {
                Ok(Self)
            }
        }

        impl $crate::jute::Encode for $name {
            #[inline]
            fn encode(&self, _: &mut $crate::jute::Writer<'_>) {}
        }

        $crate::jute::inspect! { <'a> $name, $name {} }
    };
    ($(#[$meta:meta])* $name:ident { $($(#[$note:meta])* $field:ident: $kind:ty,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[expect(clippy::exhaustive_structs, reason = "the protocol fixes a record's fields")]
        pub struct $name { $($(#[$note])* pub $field: $kind,)* }

        impl<'a> $crate::jute::Decode<'a> for $name {
            #[inline]
            fn decode(
                reader: &mut $crate::jute::Reader<'a>,
            ) -> Result<Self, $crate::error::DecodeError> {
                Ok(Self { $($field: $crate::jute::Decode::decode(reader)?,)* })
            }
        }

        impl $crate::jute::Encode for $name {
            #[inline]
            fn encode(&self, writer: &mut $crate::jute::Writer<'_>) {
                $($crate::jute::Encode::encode(&self.$field, writer);)*
            }
        }

        $crate::jute::inspect! { <'a> $name, $name { $($field: $kind,)* } }
    };
}

/// Visits the fields of a record in wire order.
macro_rules! inspect {
    (<$lt:lifetime> $record:ty, $name:ident { $($field:ident: $kind:ty,)* }) => {
        $crate::jute::breakable! { <$lt> $record, $name }

        #[cfg(feature = "arbitrary")]
        impl<$lt> ::arbitrary::Arbitrary<$lt> for $record {
            fn arbitrary(_from: &mut ::arbitrary::Unstructured<$lt>) -> ::arbitrary::Result<Self> {
                Ok(Self { $($field: _from.arbitrary()?,)* })
            }
        }

        impl<$lt> $crate::jute::Inspect<$lt> for $record {
            fn inspect(
                walk: &mut $crate::jute::Walk<$lt, '_>,
                name: $crate::jute::Name,
            ) -> Option<()> {
                walk.record::<Self>(name, stringify!($name), |_walk| {
                    $(<$kind as $crate::jute::Inspect<$lt>>::inspect(
                        _walk,
                        $crate::jute::Name::Field(stringify!($field)),
                    )?;)*
                    Some(())
                })
            }
        }
    };
}

/// Tells what of a record's bytes can be wrong.
macro_rules! breakable {
    (<$lt:lifetime> $record:ty, $name:ident) => {
        #[cfg(feature = "arbitrary")]
        const _: () = {
            use $crate::jute::{Decode, Inspect};

            impl<$lt> $crate::jute::Breakable for $record {
                fn lengths(bytes: &[u8]) -> (Vec<(usize, usize)>, usize) {
                    $crate::jute::lengths(bytes, |walk| {
                        $name::inspect(walk, $crate::jute::Name::Field("record"))
                    })
                }

                fn error_of(bytes: &[u8]) -> Option<$crate::error::DecodeError> {
                    $name::decode_exact(bytes).err()
                }
            }
        };
    };
}

/// Declares an integer code whose known values have names and whose unknown values survive.
macro_rules! code {
    (
        $(#[$meta:meta])* $name:ident {
            $($(#[$note:meta])* $constant:ident = $value:literal, $text:literal;)*
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[expect(clippy::exhaustive_structs, reason = "an integer of the wire")]
        pub struct $name(pub i32);

        impl $name {
            $($(#[$note])* pub const $constant: Self = Self($value);)*

            /// Every named value.
            #[cfg(feature = "arbitrary")]
            #[doc(hidden)]
            pub const NAMED: &[Self] = &[$(Self::$constant),*];

            /// ZooKeeper's own name of the value, if it is a known one.
            pub const fn name(self) -> Option<&'static str> {
                match self {
                    $(Self::$constant => Some($text),)*
                    _ => None,
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                match self.name() {
                    Some(name) => f.write_str(name),
                    None => write!(f, "unknown ({})", self.0),
                }
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, "{self}")
            }
        }

        impl<'a> $crate::jute::Decode<'a> for $name {
            #[inline]
            fn decode(
                reader: &mut $crate::jute::Reader<'a>,
            ) -> Result<Self, $crate::error::DecodeError> {
                <i32 as $crate::jute::Decode>::decode(reader).map(Self)
            }
        }

        impl $crate::jute::Encode for $name {
            #[inline]
            fn encode(&self, writer: &mut $crate::jute::Writer<'_>) {
                $crate::jute::Encode::encode(&self.0, writer);
            }
        }

        /// Mostly one of the named values.
        #[cfg(feature = "arbitrary")]
        impl<'a> ::arbitrary::Arbitrary<'a> for $name {
            fn arbitrary(from: &mut ::arbitrary::Unstructured<'a>) -> ::arbitrary::Result<Self> {
                if from.ratio(1, 8)? {
                    return from.arbitrary().map(Self);
                }
                from.choose(Self::NAMED).copied()
            }
        }

        $crate::jute::leaf! {
            $name => |code: Self| $crate::jute::Value::Code(code.0, code.name());
        }
    };
}

pub(crate) use {breakable, code, inspect, record};
