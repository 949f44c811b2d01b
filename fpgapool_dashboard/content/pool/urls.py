# SPDX-License-Identifier: Apache-2.0

"""The addresses of the panel for the pool."""

from django.urls import path

from fpgapool_dashboard.content.pool import views

urlpatterns = [path("", views.IndexView.as_view(), name="index")]
