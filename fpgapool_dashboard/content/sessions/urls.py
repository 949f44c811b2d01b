# SPDX-License-Identifier: Apache-2.0

"""The addresses of the panel for sessions."""

from django.urls import path

from fpgapool_dashboard.content.sessions import views

urlpatterns = [
    path("", views.IndexView.as_view(), name="index"),
    path("<uuid:session_id>/", views.DetailView.as_view(), name="detail"),
]
