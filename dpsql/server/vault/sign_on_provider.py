"""Requests of the vault to the identity provider, by HTTP: for its configuration and its keys, and for the token for a code.

The vault sends them because the front cannot connect to anything. So the secret of the client, the proof of the code (PKCE) and
the tokens never leave the vault. It connects only to the issuer that the owner configured and the addresses that this issuer
publishes, all by https unless they are on the same machine. It follows no redirect, and limits the size and the time of an
answer. Answers are JSON, and are checked before they are used (`sign_on`). The issuer learns who signs on, and nothing about
statements or rows.
"""

from __future__ import annotations

import base64
import json
import threading
import time
from collections.abc import Mapping
from typing import Any
from urllib.error import URLError
from urllib.parse import quote_plus, urlencode
from urllib.request import HTTPRedirectHandler, Request, build_opener

from dpsql.server.vault.sign_on_terms import SignOnTerms, is_safe_address

SECONDS = 10.0  # of a request
MOST_BYTES = 2**20  # of an answer
KEPT = 3600.0  # seconds for which what the issuer publishes is kept
AGAIN = 60.0  # seconds between two requests for its keys, however many tokens name unknown ones
REST = 3.0  # seconds after a request that failed until what the issuer publishes is asked for again


class ProviderFault(Exception):
    """The provider cannot be reached, or its answer is invalid; the text is for the log."""


class _Unredirected(HTTPRedirectHandler):
    def redirect_request(self, *given: Any) -> None:
        return None


class Provider:
    """Safe with threads."""

    def __init__(self, terms: SignOnTerms) -> None:
        self._terms, self._turn = terms, threading.Lock()
        self._opener = build_opener(_Unredirected)
        self._found: tuple[float, Mapping[str, Any]] | None = None
        self._keys: tuple[float, list[Any]] | None = None
        self._failed: tuple[float, ProviderFault] | None = None

    def published(self) -> Mapping[str, Any]:
        """The document in which the issuer publishes its addresses. Raises ProviderFault: for some seconds after a failure
        without asking again, so that requests of strangers do not wait one after another for a provider that cannot be
        reached."""
        with self._turn:
            if self._found is None or time.monotonic() - self._found[0] > KEPT:
                if self._failed is not None and time.monotonic() - self._failed[0] < REST:
                    raise ProviderFault(str(self._failed[1]))
                try:
                    self._found = time.monotonic(), self._document()
                except ProviderFault as fault:
                    self._failed = time.monotonic(), fault
                    raise
            return self._found[1]

    def _document(self) -> Mapping[str, Any]:
        told = self._asked(f"{self._terms.issuer.rstrip('/')}/.well-known/openid-configuration")
        addresses = [told.get(name) for name in ("authorization_endpoint", "token_endpoint", "jwks_uri")]
        if told.get("issuer") != self._terms.issuer or not all(
                type(each) is str and is_safe_address(each) for each in addresses):
            raise ProviderFault("the provider publishes another issuer, or addresses that are not by https")
        return told

    def keys(self, *, anew: bool = False) -> list[Any]:
        """The keys that the issuer signs with, which are cached; with `anew`, for a shorter time. Raises ProviderFault."""
        address = self.published()["jwks_uri"]
        with self._turn:
            if self._keys is None or time.monotonic() - self._keys[0] > (AGAIN if anew else KEPT):
                found = self._asked(address).get("keys")
                if not isinstance(found, list):
                    raise ProviderFault("the provider publishes no keys")
                self._keys = time.monotonic(), found
            return self._keys[1]

    def token_for(self, code: str, verifier: str) -> str:
        """The ID token for a code. Raises ProviderFault, also where the provider refuses the code."""
        terms = self._terms
        form = {"grant_type": "authorization_code", "code": code, "redirect_uri": terms.redirect, "code_verifier": verifier}
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        if terms.secret is None:
            form["client_id"] = terms.client
        else:
            pair = f"{quote_plus(terms.client)}:{quote_plus(terms.secret)}"
            headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode('ascii')}"
        token = self._asked(self.published()["token_endpoint"], urlencode(form).encode(), headers).get("id_token")
        if type(token) is not str:
            raise ProviderFault("the provider answered without an ID token")
        return token

    def _asked(self, address: str, body: bytes | None = None, headers: Mapping[str, str] | None = None) -> dict[str, Any]:
        asked = Request(address, body, {"Accept": "application/json", **(headers or {})})  # noqa: S310 - by https; see above
        try:
            with self._opener.open(asked, timeout=SECONDS) as reply:
                text = reply.read(MOST_BYTES + 1)
            told = json.loads(text) if len(text) <= MOST_BYTES else None
        except (URLError, OSError, ValueError, RecursionError) as fault:
            raise ProviderFault(f"{address}: {type(fault).__name__} {getattr(fault, 'code', '')}".rstrip()) from None
        if not isinstance(told, dict):
            raise ProviderFault(f"{address} answered no JSON object, or a large one")
        return told
