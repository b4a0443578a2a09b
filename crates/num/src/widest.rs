//! Loops compiled for the widest vectors of x86-64 hosts beside what every host has. All ways round alike:
//! each element goes through the same operations one by one, and no product is fused with a sum.

/// Defines a function whose loops use the vectors that the host has; its body is the safe twin of all ways.
///
/// ```
/// tilewright_num::widest! {
///     /// Twice each value.
///     fn double(values: &mut [f32]) {
///         values.iter_mut().for_each(|value| *value *= 2.0);
///     }
/// }
/// let mut values = [1.0, 2.5];
/// double(&mut values);
/// assert_eq!(values, [2.0, 5.0]);
/// ```
#[macro_export]
macro_rules! widest {
    (
        $(#[$meta:meta])*
        $visibility:vis fn $name:ident($($argument:ident: $kind:ty),* $(,)?) $(-> $result:ty)? $body:block
    ) => {
        $(#[$meta])*
        $visibility fn $name($($argument: $kind),*) $(-> $result)? {
            #[inline(always)]
            fn every_host($($argument: $kind),*) $(-> $result)? $body

            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
                fn avx512($($argument: $kind),*) $(-> $result)? {
                    every_host($($argument),*)
                }
                #[target_feature(enable = "avx2")]
                fn avx2($($argument: $kind),*) $(-> $result)? {
                    every_host($($argument),*)
                }
                if std::arch::is_x86_feature_detected!("avx512f")
                    && std::arch::is_x86_feature_detected!("avx512bw")
                    && std::arch::is_x86_feature_detected!("avx512dq")
                    && std::arch::is_x86_feature_detected!("avx512vl")
                {
                    #[expect(unsafe_code, reason = "the host was asked whether it has the instructions")]
                    // SAFETY: the host has the instructions.
                    return unsafe { avx512($($argument),*) };
                }
                if std::arch::is_x86_feature_detected!("avx2") {
                    #[expect(unsafe_code, reason = "the host was asked whether it has the instructions")]
                    // SAFETY: the host has the instructions.
                    return unsafe { avx2($($argument),*) };
                }
            }
            every_host($($argument),*)
        }
    };
}
