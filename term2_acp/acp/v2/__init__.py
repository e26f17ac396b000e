"""The door for ACP v2.

``wire`` is what comes in and the results that go out, ``capabilities`` what is advertised, ``project``
(with ``toolcalls`` and ``fit``) how events become ``session/update`` frames, ``client`` the session's view
of the editor.

Sources: the published v2 schemas of the TypeScript SDK 1.4.0 and 2.4.0. Every frame made here is valid
under both; where they differ, the shape of the newer one is sent, which the older one accepts.
"""
