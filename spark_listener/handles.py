"""Small programs that the JVM runs by itself, put together of its own method handles.

What runs on Spark's threads must not wait for Python, whose interpreter lock any other thread of
the driver may keep. ``java.lang.invoke`` (Java 7 on) lets us compose calls of public methods of
classes that are there already, so no jar of ours is needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

OBJECT: Final = "java.lang.Object"


class Handles:
    """Makes and joins ``MethodHandle`` objects over py4j. A program is run by the JVM alone."""

    def __init__(self, gateway: Any) -> None:
        # Looked up once: py4j asks the JVM for each part of a name.
        jvm = gateway.jvm
        self._gateway = gateway
        self._object, self._class = jvm.Object, jvm.Class
        self._int = jvm.int
        self._class_of = jvm.py4j.reflection.ReflectionUtil.classForName
        invoke = jvm.java.lang.invoke
        self._type_of = invoke.MethodType.fromMethodDescriptorString
        self._as_interface = invoke.MethodHandleProxies.asInterfaceInstance
        self._new_proxy = jvm.java.lang.reflect.Proxy.newProxyInstance
        self.methods = invoke.MethodHandles
        self._lookup = self.methods.publicLookup()
        self._void = self.type("()V").returnType()

    def java_class(self, name: str) -> Any:
        """The class of this name, as py4j itself would find it."""
        return self._class_of(name)

    def type(self, descriptor: str) -> Any:
        """``(ILjava/lang/Object;)V`` as a ``MethodType``; of classes of the JDK alone."""
        return self._type_of(descriptor, None)

    def array(self, *values: Any) -> Any:
        """An ``Object[]``."""
        made = self._gateway.new_array(self._object, len(values))
        for index, value in enumerate(values):
            made[index] = value
        return made

    def virtual(self, class_name: str, method: str, descriptor: str) -> Any:
        """A method of any object of a class: the object is its first argument."""
        return self._lookup.findVirtual(self.java_class(class_name), method, self.type(descriptor))

    def static(self, class_name: str, method: str, descriptor: str) -> Any:
        """A static method."""
        return self._lookup.findStatic(self.java_class(class_name), method, self.type(descriptor))

    def constructor(self, class_name: str, descriptor: str = "()V") -> Any:
        """Makes an object."""
        return self._lookup.findConstructor(self.java_class(class_name), self.type(descriptor))

    def bound(self, owner: Any, method: str, descriptor: str) -> Any:
        """A method of this one object, which the program keeps alive."""
        return self._lookup.bind(owner, method, self.type(descriptor))

    def method_of(self, owner: Any, name: str, *class_names: str) -> Any:
        """A public method of the class of an object, with parameters of these classes.

        Any object of the class is its first argument; unlike ``virtual``, of any class loader.
        """
        return self.method(owner.getClass(), name, *class_names)

    def method(self, java_class: Any, name: str, *class_names: str) -> Any:
        """A public method of a class, with parameters of these classes; static ones too."""
        return self._lookup.unreflect(self._method(java_class, name, *class_names))

    def chained(self, java_class: Any, *names: str) -> Any:
        """Public methods without parameters, each of what the one before it is declared to give."""
        found = self._method(java_class, names[0])
        handle = self._lookup.unreflect(found)
        rest = names[1:]
        return self.piped(handle, self.chained(found.getReturnType(), *rest)) if rest else handle

    def field(self, found: Any) -> Any:
        """Reads a ``java.lang.reflect.Field`` that was made accessible, of the object given."""
        return self._lookup.unreflectGetter(found)

    def _method(self, java_class: Any, name: str, *class_names: str) -> Any:
        classes = self._gateway.new_array(self._class, len(class_names))
        for index, class_name in enumerate(class_names):
            classes[index] = self.java_class(class_name)
        return java_class.getMethod(name, classes)

    def piped(self, first: Any, second: Any) -> Any:
        """What the second makes of the first's result."""
        wanted = first.type().changeReturnType(second.type().parameterType(0))
        return self.methods.filterReturnValue(first.asType(wanted), second)

    def given(self, handle: Any, position: int, *values: Any) -> Any:
        """The handle with these arguments filled in."""
        return self.methods.insertArguments(handle, position, self.array(*values))

    def ignoring(self, handle: Any, position: int, class_names: Sequence[str]) -> Any:
        """The handle with arguments of these classes beside its own, which it does not look at."""
        classes = self._gateway.new_array(self._class, len(class_names))
        for index, name in enumerate(class_names):
            classes[index] = self.java_class(name)
        return self.methods.dropArguments(handle, position, classes)

    def reordered(self, handle: Any, new_type: Any, *order: int) -> Any:
        """The handle with its arguments taken from these places of a call of ``new_type``."""
        places = self._gateway.new_array(self._int, len(order))
        for index, place in enumerate(order):
            places[index] = place
        return self.methods.permuteArguments(handle, new_type, places)

    def loose(self, handle: Any) -> Any:
        """The handle with objects for all that it takes and gives."""
        return handle.asType(handle.type().generic())

    def place(self, index: int) -> Any:
        """What stands in this place of an ``Object[]``."""
        array = self.array().getClass()
        return self.loose(self.given(self.methods.arrayElementGetter(array), 1, index))

    def unless_null(self, handle: Any) -> Any:
        """Null for null; else what the handle, of one object, makes of it."""
        same = self.methods.identity(self.java_class(OBJECT))
        is_null = self.static("java.util.Objects", "isNull", "(Ljava/lang/Object;)Z")
        return self.either(is_null, same, handle)

    def silent(self, handle: Any) -> Any:
        """The handle without its result."""
        return handle.asType(handle.type().changeReturnType(self._void))

    def then(self, first: Any, second: Any) -> Any:
        """Both with the same arguments, one after the other; gives what the second gives."""
        return self.methods.foldArguments(second, self.silent(first))

    def either(self, test: Any, yes: Any, no: Any) -> Any:
        """``yes`` where ``test`` gives true, else ``no``."""
        return self.methods.guardWithTest(test, yes, no)

    def safe(self, handle: Any) -> Any:
        """The handle, which gives null where it would throw anything."""
        nothing = self.methods.constant(self.java_class(OBJECT), None).asType(
            self.type("()V").changeReturnType(handle.type().returnType())
        )
        throwable = "java.lang.Throwable"
        return self.methods.catchException(
            handle, self.java_class(throwable), self.ignoring(nothing, 0, [throwable])
        )

    def nothing_with(self, handle: Any) -> Any:
        """Takes what the handle takes, does nothing and gives nothing."""
        nothing = self.silent(self.methods.constant(self.java_class(OBJECT), None))
        return self.methods.dropArguments(nothing, 0, handle.type().parameterList())

    def function(self, handle: Any) -> Any:
        """The program, of one or two arguments, as an object whose ``apply`` is one exchange."""
        two = int(handle.type().parameterCount()) == 2
        interface = "java.util.function." + ("BiFunction" if two else "Function")
        return self.as_interface(interface, self.loose(handle))

    def as_interface(self, class_name: str, handle: Any) -> Any:
        """An object of an interface with one method, which is the handle."""
        return self._as_interface(self.java_class(class_name), handle)

    def as_handler(self, handle: Any, *class_names: str) -> Any:
        """An object of these interfaces, each of whose methods runs the handle with its arguments.

        The handle takes them as one ``Object[]``, null for none, and gives an object.
        """
        classes = [self.java_class(name) for name in class_names]
        handler = self.as_interface(
            "java.lang.reflect.InvocationHandler",
            self.ignoring(handle, 0, [OBJECT, "java.lang.reflect.Method"]),
        )
        interfaces = self._gateway.new_array(self._class, len(classes))
        for index, found in enumerate(classes):
            interfaces[index] = found
        return self._new_proxy(classes[0].getClassLoader(), interfaces, handler)
