//! Lists in any shape: tuples, arrays, slices and vectors, nested in one another, whose results
//! come back in the same shape.
//!
//! There are two such lists, of operations and of reads, which must not be mixed. So this is a
//! macro that is applied to each of the two traits, and not a trait above both.

/// Implements a trait for all shapes of the types that implement it. The trait has the type
/// `Results`, and a method that adds to a `$list` and returns a `$reader`, which reads the results.
macro_rules! shapes {
    ($trait:ident, $list:ident, $reader:ident) => {
        impl<T: $trait> sealed::Sealed for [T] {}

        impl<T: $trait> $trait for [T] {
            type Results = Vec<T::Results>;

            fn enlist<'s>(&'s self, list: &mut $list<'s>) -> $reader<Self::Results> {
                let readers = self.iter().map(|entry| entry.enlist(list)).collect::<Vec<_>>();
                Box::new(move |results| readers.into_iter().map(|read| read(results)).collect())
            }
        }

        impl<T: $trait> sealed::Sealed for Vec<T> {}

        impl<T: $trait> $trait for Vec<T> {
            type Results = Vec<T::Results>;

            fn enlist<'s>(&'s self, list: &mut $list<'s>) -> $reader<Self::Results> {
                self.as_slice().enlist(list)
            }
        }

        impl<T: $trait, const N: usize> sealed::Sealed for [T; N] {}

        impl<T: $trait, const N: usize> $trait for [T; N] {
            type Results = [T::Results; N];

            fn enlist<'s>(&'s self, list: &mut $list<'s>) -> $reader<Self::Results> {
                let read = self.as_slice().enlist(list);
                Box::new(move |results| read(results)?.try_into().ok())
            }
        }

        impl<T: $trait + ?Sized> sealed::Sealed for &T {}

        impl<T: $trait + ?Sized> $trait for &T {
            type Results = T::Results;

            fn enlist<'s>(&'s self, list: &mut $list<'s>) -> $reader<Self::Results> {
                (**self).enlist(list)
            }
        }

        $crate::multi::shapes::tuples! { $trait, $list, $reader:
            ()
            (A)
            (A B)
            (A B C)
            (A B C D)
            (A B C D E)
            (A B C D E F)
            (A B C D E F G)
            (A B C D E F G H)
            (A B C D E F G H I)
            (A B C D E F G H I J)
            (A B C D E F G H I J K)
            (A B C D E F G H I J K L)
        }
    };
}
pub(crate) use shapes;

macro_rules! tuples {
    ($trait:ident, $list:ident, $reader:ident: $($tuple:tt)*) => {
        $($crate::multi::shapes::tuple! { $trait, $list, $reader: $tuple })*
    };
}
pub(crate) use tuples;

macro_rules! tuple {
    ($trait:ident, $list:ident, $reader:ident: ()) => {
        impl sealed::Sealed for () {}

        impl $trait for () {
            type Results = ();

            fn enlist<'s>(&'s self, _: &mut $list<'s>) -> $reader<()> {
                Box::new(|_| Some(()))
            }
        }
    };
    ($trait:ident, $list:ident, $reader:ident: ($($name:ident)+)) => {
        impl<$($name: $trait),+> sealed::Sealed for ($($name,)+) {}

        impl<$($name: $trait),+> $trait for ($($name,)+) {
            type Results = ($($name::Results,)+);

            #[expect(non_snake_case, reason = "each is called like its type")]
            fn enlist<'s>(&'s self, list: &mut $list<'s>) -> $reader<Self::Results> {
                let ($($name,)+) = self;
                $(let $name = $name.enlist(list);)+
                Box::new(move |results| Some(($($name(results)?,)+)))
            }
        }
    };
}
pub(crate) use tuple;
