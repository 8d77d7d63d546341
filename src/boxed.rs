//! [`boxed_methods`]: asynchronous methods of traits whose futures are boxed by functions outside of the trait, which compiles sooner.
//!
//! `#[async_trait]` gives methods conditions on lifetimes, and the compiler proves under the conditions of each type anew that what a future
//! holds is `Send`. For a plan, or a session, that is a thousand types and some seconds; functions without such conditions share the proofs.

/// Methods as `#[async_trait]` declares them, in an `impl` without that attribute.
///
/// * `fn name<'a, 'b>(&'a self, argument: &'b Type) -> Output = Self::function;` calls a function that returns a `BoxFuture`. Each
///   reference of the arguments has a lifetime of its own.
/// * `of Type; fn name(argument: Argument) -> Output;` awaits the method of `Type` of the same name, without references but `&self`;
///   `of Type, |this| &this.field;` that of a part of this type.
macro_rules! boxed_methods {
    (of $of:ty; $(fn $name:ident($($argument:ident: $type:ty),* $(,)?) -> $output:ty;)+) => {
        boxed_methods! { of $of, |of| of; $(fn $name($($argument: $type),*) -> $output;)+ }
    };
    (of $of:ty, |$this:ident| $found:expr; $(fn $name:ident($($argument:ident: $type:ty),* $(,)?) -> $output:ty;)+) => {$(
        fn $name<'a, 'boxed>(
            &'a self,
            $($argument: $type),*
        ) -> std::pin::Pin<Box<dyn Future<Output = $output> + Send + 'boxed>>
        where
            'a: 'boxed,
            Self: 'boxed,
        {
            fn boxed(of: &$of, $($argument: $type),*) -> futures::future::BoxFuture<'_, $output> {
                Box::pin(<$of>::$name(of, $($argument),*))
            }
            let $this = self;
            boxed($found, $($argument),*)
        }
    )+};
    ($(fn $name:ident<$($lifetime:lifetime),+>(&$of:lifetime $this:ident $(, $argument:ident: $type:ty)* $(,)?) -> $output:ty = $function:path;)+) => {$(
        fn $name<$($lifetime,)+ 'boxed>(
            &$of $this,
            $($argument: $type),*
        ) -> std::pin::Pin<Box<dyn Future<Output = $output> + Send + 'boxed>>
        where
            $($lifetime: 'boxed,)+
            Self: 'boxed,
        {
            $function($this, $($argument),*)
        }
    )+};
}
