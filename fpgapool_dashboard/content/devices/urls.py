# SPDX-License-Identifier: Apache-2.0

"""The addresses of the panel for devices."""

from django.urls import path

from fpgapool_dashboard.content.devices import views

urlpatterns = [
    path("", views.IndexView.as_view(), name="index"),
    path(
        "<uuid:object_id>/<slug:state>/",
        views.StateView.as_view(),
        name="state",
    ),
]
