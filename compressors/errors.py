"""What can go wrong with a method and with a message."""


class MethodError(ValueError):
    """A method's text that cannot be read, or that names a method which cannot be made."""


class PayloadError(ValueError):
    """The payload is cut, has trailing data, or was not made by this method for these tensors."""


class UpdateError(ValueError):
    """An update that no message can carry: NaN, infinity, or a dtype other than float32."""


class NotFinite(UpdateError):
    """An update that holds NaN or infinity, or overflows float32 on its way into a message."""


class PartError(ValueError):
    """A part that breaks its contract: what it handed over, or that its decoding does not fit."""
